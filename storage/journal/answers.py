"""Answers at hand: found by pseudonym, opened with the data key.

Whether an answer is fresh enough, and what it means for a row, is judged in `steps/`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import bindparam, select

from storage.journal.calls import answer_context
from storage.journal.engine import reading
from storage.journal.statements import marks
from storage.journal.tables import answers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection, Engine

    from storage.sealing import Sealer

_BLOCK = 1000
_COLUMNS = ("subject", "outcome", "answered_at", "call_id", "run_id", "cost_micro")


class StoredAnswer(NamedTuple):
    """The latest answer to a lookup.

    Attributes:
        subject: pseudonym of the identifier.
        outcome: what was answered, as far as it can be told without a row.
        answered_at: instant in microseconds.
        call_id: the call that brought it.
        run_id: the run that asked.
        cost_micro: what it cost; None where the service did not say.
        sealed: the body as received, sealed; empty where bodies were not asked for.
    """

    subject: bytes
    outcome: str
    answered_at: int
    call_id: int
    run_id: str
    cost_micro: int | None
    sealed: bytes

    def __repr__(self) -> str:
        """Name the answer without its body."""
        return f"StoredAnswer(call_id={self.call_id}, outcome={self.outcome!r}, sealed=***)"


@dataclass(frozen=True, slots=True)
class Answers:
    """Reads stored answers."""

    _engine: Engine = field(repr=False)
    _sealer: Sealer = field(repr=False)

    def latest(
        self, check: str, subjects: Sequence[bytes], *, bodies: bool = True
    ) -> dict[bytes, StoredAnswer]:
        """Return the latest answer of each subject that has one."""
        found: dict[bytes, StoredAnswer] = {}
        for rows in self._rows(check, subjects, bodies=bodies):
            if bodies:
                found.update((row[0], StoredAnswer._make(row)) for row in rows)
            else:
                found.update((row[0], StoredAnswer._make((*row, b""))) for row in rows)
        return found

    def _rows(
        self, check: str, subjects: Sequence[bytes], *, bodies: bool
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Yield answers in blocks, those of a subject together and the latest last.

        Subjects are looked up in their own order, which is the index's, so that neighbours share
        pages.
        """
        ordered = sorted(subjects)
        with reading(self._engine) as connection:
            read = _read_sqlite if connection.dialect.name == "sqlite" else _read_postgresql
            for start in range(0, len(ordered), _BLOCK):
                yield read(connection, check, ordered[start : start + _BLOCK], bodies)

    def body(self, check: str, answer: StoredAnswer) -> bytes:
        """Return an answer's body as it was received.

        Raises:
            JournalKeyError: it was sealed under a key that is not at hand.
            JournalDamagedError: the sealed body does not open.
        """
        return self._sealer.open(answer.sealed, answer_context(check, answer.subject))


def _read_sqlite(
    connection: Connection, check: str, subjects: Sequence[bytes], bodies: bool
) -> list[tuple[Any, ...]]:
    """Read a block past SQLAlchemy, whose rows and lists of values cost more than the reading."""
    columns = ", ".join((*_COLUMNS, *(("body",) if bodies else ())))
    sql = (
        f"SELECT {columns} FROM answers WHERE subject IN ({marks(len(subjects))}) "  # noqa: S608 - nothing of it comes from outside
        'AND "check" = ? ORDER BY subject, answered_at, answer_id'
    )
    cursor = connection.connection.cursor()
    try:
        return list(cursor.execute(sql, (*subjects, check)))
    finally:
        cursor.close()


_POSTGRESQL = {
    bodies: select(*(answers.c[name] for name in _COLUMNS), *((answers.c.body,) if bodies else ()))
    .where(
        answers.c.subject.in_(bindparam("subjects", expanding=True)),
        answers.c.check == bindparam("check"),
    )
    .order_by(answers.c.subject, answers.c.answered_at, answers.c.answer_id)
    for bodies in (False, True)
}


def _read_postgresql(
    connection: Connection, check: str, subjects: Sequence[bytes], bodies: bool
) -> list[tuple[Any, ...]]:
    values = {"subjects": list(subjects), "check": check}
    return [tuple(row) for row in connection.execute(_POSTGRESQL[bodies], values)]
