"""Answers at hand: found by pseudonym, opened with the data key.

Whether an answer is fresh enough, and what it means for a row, is judged in `steps/`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlalchemy import select

from storage.journal.calls import answer_context
from storage.journal.engine import reading
from storage.journal.tables import answers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Engine

    from storage.sealing import Sealer

_BLOCK = 500


@dataclass(frozen=True, slots=True)
class StoredAnswer:
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
    sealed: bytes = field(repr=False)


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
        with reading(self._engine) as connection:
            columns = [
                answers.c.subject,
                answers.c.outcome,
                answers.c.answered_at,
                answers.c.call_id,
                answers.c.run_id,
                answers.c.cost_micro,
            ]
            if bodies:
                columns.append(answers.c.body)
            for block in _blocks(subjects):
                query = (
                    select(*columns)
                    .where(answers.c.subject.in_(block), answers.c.check == check)
                    .order_by(answers.c.answered_at, answers.c.answer_id)
                )
                for row in connection.execute(query):
                    subject = bytes(row[0])
                    body = bytes(row[6]) if bodies else b""
                    found[subject] = StoredAnswer(
                        subject, row[1], row[2], row[3], row[4], row[5], body
                    )
        return found

    def body(self, check: str, answer: StoredAnswer) -> bytes:
        """Return an answer's body as it was received.

        Raises:
            JournalDamagedError: the sealed body does not open.
        """
        return self._sealer.open(answer.sealed, answer_context(check, answer.subject))


def _blocks(subjects: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(subjects), _BLOCK):
        yield subjects[start : start + _BLOCK]
