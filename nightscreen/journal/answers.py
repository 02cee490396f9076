"""Answers at hand: found by pseudonym, opened with the data key.

Whether an answer is fresh enough, and what it means for a row, is judged in `planning/`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sqlalchemy import bindparam, case, func, literal, null, select

from nightscreen.files.sealing import SUBJECT_BYTES
from nightscreen.journal.calls import NO_ANSWER, OUTAGE, open_answer
from nightscreen.journal.engine import outlasting, reading, reading_settled
from nightscreen.journal.schema import answers, calls
from nightscreen.journal.statements import among_joined, fetched
from nightscreen.schemas.checks import HITS, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import ColumnElement, Engine

    from nightscreen.files.sealing import Sealer

_BLOCK = 4000 * SUBJECT_BYTES
OUTCOMES = tuple(Outcome)
"""Outcomes by the numbers that `Latest` gives them."""
NONE = -1
"""Stands in `Latest` for no answer, and for a cost that the service did not say."""
_NUMBERS = {outcome.value: number for number, outcome in enumerate(OUTCOMES)}
SIXTEEN = f"S{SUBJECT_BYTES}"
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
        body = answers.c.body if bodies else literal(b"")
        joined = b"".join(sorted(subjects))
        blocks = self._blocks(check, joined, *_COLUMNS, body)
        return {row[0]: StoredAnswer._make(row) for rows in blocks for row in rows}

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
        found = Latest.nothing(len(subjects) // SUBJECT_BYTES)
        blocks = self._blocks(check, subjects, *_COLUMNS, answers.c.answer_id, _TROUBLE)
        for number, rows in enumerate(blocks):
            last = {row[0]: row for row in rows}
            asked = {row[0] for row in rows if row[4] == run_id}  # by this run, now or before
            block = subjects[number * _BLOCK : (number + 1) * _BLOCK]
            places, entered = [], []
            for place in range(0, len(block), SUBJECT_BYTES):
                row = last.get(block[place : place + SUBJECT_BYTES])
                if row is None:
                    continue
                subject, outcome, answered_at, call_id, run, cost_micro, answer_id, trouble = row
                if trouble == OUTAGE and run != run_id:
                    continue
                cost = NONE if cost_micro is None else cost_micro
                current = subject in asked or answer_id > since
                numbered = _NUMBERS.get(outcome, NONE)
                entered.append((numbered, answered_at, call_id, run == run_id, cost, current))
                places.append((number * _BLOCK + place) // SUBJECT_BYTES)
            if entered:
                columns = map(np.array, zip(*entered, strict=True))
                found.put(np.array(places), Latest(*columns))
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
        joined = b"".join(sorted(set(calls.values())))
        for rows in self._blocks(check, joined, *_COLUMNS, answers.c.body):
            for answer in map(StoredAnswer._make, rows):
                if calls.get(answer.call_id) == answer.subject:
                    yield answer.call_id, answer

    def _blocks(
        self, check: str, subjects: bytes, *columns: ColumnElement[Any]
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the answers about a block of pseudonyms after the other, each's latest last.

        The pseudonyms are looked up in their own order, which is the index's, so that neighbours
        share pages.
        """
        query = (
            select(*columns)
            .where(
                among_joined(self._engine.dialect.name, "subject", "subjects"),
                answers.c.check == bindparam("check"),
                answers.c.outcome != NO_ANSWER,
            )
            .order_by(answers.c.subject, answers.c.answer_id)
        )
        with reading(self._engine) as connection:
            for start in range(0, len(subjects), _BLOCK):
                values = {"subjects": subjects[start : start + _BLOCK], "check": check}
                yield fetched(connection.execute(query, values))

    def body(self, check: str, answer: StoredAnswer) -> bytes:
        """Return an answer's body as it was received.

        Raises:
            JournalKeyError: it was sealed under a key that is not at hand.
            JournalDamagedError: the sealed body does not open.
        """
        return open_answer(self._sealer, check, answer.subject, answer.outcome, answer.sealed)[1]


_COLUMNS = tuple(
    answers.c[name]
    for name in ("subject", "outcome", "answered_at", "call_id", "run_id", "cost_micro")
)
_TROUBLE = case(
    (
        answers.c.outcome == Outcome.UNREADABLE.value,
        select(calls.c.trouble).where(calls.c.call_id == answers.c.call_id).scalar_subquery(),
    ),
    else_=null(),
)
"""Trouble of the call, looked up of answers that could not be read only."""
