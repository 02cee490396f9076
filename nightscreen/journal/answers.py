"""Answers at hand: found by pseudonym, opened with the data key.

Whether an answer is fresh enough, and what it means for a row, is judged in `planning/`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sqlalchemy import bindparam, case, func, literal, select

from nightscreen.journal.calls import NO_ANSWER, OUTAGE, open_answer
from nightscreen.journal.engine import outlasting, reading, reading_settled
from nightscreen.journal.schema import answers, calls
from nightscreen.journal.statements import among_joined, fetched
from nightscreen.schemas.checks import HITS, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import ColumnElement, Connection, Engine, Select

    from nightscreen.files.sealing import Sealer

_BLOCK = 4000
OUTCOMES = tuple(Outcome)
"""Outcomes by the numbers that `Latest` gives them."""
NONE = -1
"""Stands in `Latest` for no answer, and for a cost that the service did not say."""


class _Numbers(dict[str, int]):
    """Numbers of outcomes; one that is not known counts as none."""

    def __missing__(self, word: str) -> int:
        return NONE


_NUMBERS = _Numbers({outcome.value: number for number, outcome in enumerate(OUTCOMES)})
SIXTEEN = "S16"
"""numpy's type of a pseudonym."""
_WITH_RECORD = sorted(each.value for each in (*HITS, Outcome.UNREADABLE))
_RECENT = 20_000  # answers among which those in a row are looked for


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
class Latest:
    """The latest answers to many lookups, without their bodies: an array each, in one order.

    Attributes:
        outcome: number among `OUTCOMES`, `NONE` where there is no answer.
        answered_at: instant in microseconds.
        call_id: the call that brought it.
        own_run: whether the run itself asked, in this session or an earlier one.
        current: whether it counts whatever its age: the run asked it, or asked before it came, or
            it came since the run's plan.
        cost_micro: what it cost; `NONE` where the service did not say.
    """

    outcome: NDArray[np.int8]
    answered_at: NDArray[np.int64]
    call_id: NDArray[np.int64]
    own_run: NDArray[np.bool_]
    cost_micro: NDArray[np.int64]
    current: NDArray[np.bool_]

    @classmethod
    def nothing(cls, size: int) -> Latest:
        """Return arrays that hold no answer."""
        return cls(
            np.full(size, NONE, np.int8),
            np.zeros(size, np.int64),
            np.zeros(size, np.int64),
            np.zeros(size, bool),
            np.full(size, NONE, np.int64),
            np.zeros(size, bool),
        )

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the arrays' names, in order."""
        return tuple(each.name for each in fields(cls))

    def take(self, places: NDArray[np.int64] | NDArray[np.bool_]) -> Latest:
        """Return the answers at some places."""
        return Latest(*(getattr(self, name)[places] for name in self.names()))

    def put(self, places: NDArray[np.int64] | NDArray[np.bool_], answers: Latest) -> None:
        """Enter answers at some places."""
        for name in self.names():
            getattr(self, name)[places] = getattr(answers, name)


@dataclass(frozen=True, slots=True)
class Answers:
    """Reads stored answers."""

    _engine: Engine = field(repr=False)
    _sealer: Sealer = field(repr=False)

    @outlasting
    def latest(
        self, check: str, subjects: Sequence[bytes], *, bodies: bool = True
    ) -> dict[bytes, StoredAnswer]:
        """Return the latest answer of each subject that has one."""
        found: dict[bytes, StoredAnswer] = {}
        for rows in self._rows(check, subjects, _WHOLE if bodies else _WITHOUT_BODY):
            found.update((row[0], StoredAnswer._make(row)) for row in rows)
        return found

    @outlasting
    def latest_columns(self, check: str, subjects: bytes, run_id: str, since: int) -> Latest:
        """Return the latest answers to many lookups as columns, without bodies.

        Args:
            check: the check.
            subjects: pseudonyms of sixteen bytes, joined, ascending, each once.
            run_id: the run whose own answers are told apart.
            since: place in the journal (`position`) from which on answers are current.

        What another run could not read in an outage of the check is left out: it has no age.
        """
        asked = np.frombuffer(subjects, SIXTEEN)
        found = Latest.nothing(len(asked))
        query = self._of_subjects(*_STANDING)
        with reading(self._engine) as connection:
            for start in range(0, len(asked), _BLOCK):
                block = asked[start : start + _BLOCK]
                values = {"subjects": block.tobytes(), "check": check, "run_id": run_id}
                rows = fetched(connection.execute(query, values))
                if rows:
                    _enter(found, start, block, _StoredRows.of_rows(rows), since)
            _leave_out_outages(connection, found)
        return found

    @outlasting
    def position(self) -> int:
        """Return the place the journal has come to: every answer after it has a higher number.

        It is the journal's own order, the same for all machines whatever their clocks say.
        """
        with reading_settled(self._engine) as connection:
            return int(connection.execute(select(func.max(answers.c.answer_id))).scalar() or 0)

    @outlasting
    def unreadable_run(self, check: str, most: int) -> int:
        """Return how many charged answers of late could not be read, since the last record.

        Args:
            check: the check.
            most: it is not counted further.
        """
        newest = select(answers).order_by(answers.c.answer_id.desc()).limit(_RECENT).subquery()
        query = (
            select(newest.c.outcome, newest.c.cost_micro)
            .where(newest.c.check == check, newest.c.outcome.in_(_WITH_RECORD))
            .order_by(newest.c.answer_id.desc())
        )
        found = 0
        with reading(self._engine) as connection:
            for outcome, cost_micro in connection.execute(query):
                if outcome != Outcome.UNREADABLE or found == most:
                    break
                found += bool(cost_micro)
        return found

    def of_calls(
        self, check: str, calls: Mapping[int, bytes]
    ) -> Iterator[tuple[int, StoredAnswer]]:
        """Yield the answers that some calls brought, with bodies, in no order.

        Args:
            check: the check.
            calls: each call with the subject it was about.
        """
        for rows in self._rows(check, list(set(calls.values())), _WHOLE):
            for row in rows:
                answer = StoredAnswer._make(row)
                if calls.get(answer.call_id) == answer.subject:
                    yield answer.call_id, answer

    def _rows(
        self, check: str, subjects: Sequence[bytes], columns: Sequence[ColumnElement[Any]]
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Yield answers in blocks, those of a subject together and the latest last.

        Subjects are looked up in their own order, which is the index's, so that neighbours share
        pages.
        """
        ordered, query = sorted(subjects), self._of_subjects(*columns)
        with reading(self._engine) as connection:
            for start in range(0, len(ordered), _BLOCK):
                values = {"subjects": b"".join(ordered[start : start + _BLOCK]), "check": check}
                yield fetched(connection.execute(query, values))

    def _of_subjects(self, *columns: ColumnElement[Any]) -> Select[Any]:
        """Return a query for the answers to a check about some subjects, each's latest last."""
        return (
            select(*columns)
            .where(
                among_joined(self._engine.dialect.name, "subject", "subjects"),
                answers.c.check == bindparam("check"),
                answers.c.outcome != NO_ANSWER,
            )
            .order_by(answers.c.subject, answers.c.answer_id)
        )

    def body(self, check: str, answer: StoredAnswer) -> bytes:
        """Return an answer's body as it was received.

        Raises:
            JournalKeyError: it was sealed under a key that is not at hand.
            JournalDamagedError: the sealed body does not open.
        """
        return open_answer(self._sealer, check, answer.subject, answer.outcome, answer.sealed)[1]


_COLUMNS = [
    answers.c[name]
    for name in ("subject", "outcome", "answered_at", "call_id", "run_id", "cost_micro")
]
_WHOLE = (*_COLUMNS, answers.c.body)
_WITHOUT_BODY = (*_COLUMNS, literal(b""))
_STANDING = (
    *(answers.c[name] for name in ("subject", "outcome", "answered_at", "call_id", "answer_id")),
    func.coalesce(answers.c.cost_micro, NONE),
    case((answers.c.run_id == bindparam("run_id"), 1), else_=0),
)


class _StoredRows(NamedTuple):
    """Answers as they stand in the journal, those of a lookup together and the latest last."""

    subject: NDArray[np.bytes_]
    answer_id: NDArray[np.int64]
    answers: Latest

    @classmethod
    def of_rows(cls, rows: Sequence[tuple[Any, ...]]) -> _StoredRows:
        """Return rows of `_STANDING` as columns."""
        columns = zip(*rows, strict=True)
        subjects, outcomes, answered_at, call_id, answer_id, cost_micro, own_run = columns
        return cls(
            np.frombuffer(b"".join(subjects), SIXTEEN),
            np.array(answer_id, np.int64),
            Latest(
                np.fromiter(map(_NUMBERS.__getitem__, outcomes), np.int8, len(outcomes)),
                np.array(answered_at, np.int64),
                np.array(call_id, np.int64),
                np.array(own_run, bool),
                np.array(cost_micro, np.int64),
                np.zeros(len(rows), bool),
            ),
        )


def _enter(
    found: Latest, start: int, block: NDArray[np.bytes_], standing: _StoredRows, since: int
) -> None:
    """Enter a block's answers; of several to one lookup the last counts, others are left out."""
    subject, answers = standing.subject, standing.answers
    last = np.ones(len(subject), dtype=bool)
    last[:-1] = subject[1:] != subject[:-1]
    begins = np.flatnonzero(np.roll(last, 1))
    asked_here = np.logical_or.reduceat(answers.own_run, begins)  # by this run, now or before
    answers.current[last] = asked_here | (standing.answer_id[last] > since)
    place = np.minimum(np.searchsorted(block, subject), len(block) - 1)
    last &= block[place] == subject
    found.put(start + place[last], answers.take(last))


def _leave_out_outages(connection: Connection, found: Latest) -> None:
    """Take out answers of other runs that could not be read in an outage of their check."""
    unread = np.flatnonzero((found.outcome == _NUMBERS[Outcome.UNREADABLE]) & ~found.own_run)
    for start in range(0, len(unread), _BLOCK):
        places = unread[start : start + _BLOCK]
        of_outage = connection.execute(
            select(calls.c.call_id).where(
                calls.c.call_id.in_(found.call_id[places].tolist()), calls.c.trouble == OUTAGE
            )
        ).scalars()
        gone = places[np.isin(found.call_id[places], list(of_outage))]
        found.put(gone, Latest.nothing(len(gone)))
