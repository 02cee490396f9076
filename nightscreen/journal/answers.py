"""Answers at hand: found by pseudonym, opened with the data key.

Whether an answer is fresh enough, and what it means for a row, is judged in `planning/`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import bindparam, case, exists, func, literal, null, select

from nightscreen.journal.calls import NO_ANSWER, OUTAGE, UNREAD, open_answer
from nightscreen.journal.engine import outlasting, reading, reading_settled
from nightscreen.journal.schema import answers, calls, runs
from nightscreen.schemas.calls import CallState
from nightscreen.schemas.checks import HITS, Outcome

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from sqlalchemy import ColumnElement, Engine, Row

    from nightscreen.files.sealing import Sealer

_BLOCK = 4000  # pseudonyms, each a parameter: SQLite takes 32,766 in one statement
_NEVER = 2**63 - 1  # the highest number that the database holds: no answer comes after it
_WITH_RECORD = sorted(each.value for each in (*HITS, Outcome.UNREADABLE))
_RECENT = 20_000  # answers among which those in a row are looked for


class StoredAnswer(NamedTuple):
    """The latest answer to a lookup.

    Attributes:
        outcome: what was answered, as far as it can be told without a row.
        answered_at: instant in microseconds.
        cost_micro: what it cost; None where the service did not say.
        current: whether it counts whatever its age: the run asked it, or asked before it came, or
            it came since the run's plan.
        sealed: the body as received, sealed; empty where bodies were not asked for.
    """

    subject: bytes
    outcome: str
    answered_at: int
    run_id: str
    cost_micro: int | None
    current: bool
    sealed: bytes

    def __repr__(self) -> str:
        """Name the answer without its body."""
        return f"StoredAnswer(outcome={self.outcome!r}, sealed=***)"


@dataclass(frozen=True, slots=True)
class HeldAnswer:
    """One answer about a person, opened."""

    check: str
    outcome: str
    answered_at: int
    run_id: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Answers:
    """Reads stored answers."""

    _engine: Engine = field(repr=False)
    _sealer: Sealer = field(repr=False)

    def latest(self, check: str, subjects: Collection[bytes]) -> dict[bytes, StoredAnswer]:
        """Return the latest answer of each subject that has one, with its body."""
        blocks = self.latest_blocks(check, sorted(subjects), bodies=True)
        return {answer.subject: answer for block in blocks for answer in block}

    def latest_blocks(
        self,
        check: str,
        subjects: Sequence[bytes],
        *,
        run_id: str = "",
        since: int = _NEVER,
        bodies: bool = False,
    ) -> Iterator[list[StoredAnswer]]:
        """Yield the latest answers to many lookups, some at a time.

        What another run could not read in an outage of the check is left out: it has no age.

        Args:
            check: the check.
            subjects: pseudonyms, ascending, each once: the order of the index, so that neighbours
                share pages.
            run_id: the run in whose name they are looked at.
            since: place in the journal (`position`) from which on answers are current.
            bodies: whether to read bodies too.
        """
        body = answers.c.body if bodies else literal(b"")
        for start in range(0, len(subjects), _BLOCK):
            rows = self._of_subjects(check, subjects[start : start + _BLOCK], body)
            own = {row.subject for row in rows if row.run_id == run_id}  # asked by it ever
            last = {row.subject: row for row in rows}
            yield [
                StoredAnswer._make(
                    (*row[:5], row.subject in own or row.answer_id > since, row.body)
                )
                for row in last.values()
                if row.trouble != OUTAGE or row.run_id == run_id or not run_id
            ]

    @outlasting
    def _of_subjects(
        self, check: str, subjects: Sequence[bytes], body: ColumnElement[bytes]
    ) -> Sequence[Row[Any]]:
        """Return every answer about some pseudonyms, each's latest last."""
        query = (
            select(*_COLUMNS, body.label("body"))
            .where(
                answers.c.subject.in_(bindparam("subjects", expanding=True)),
                answers.c.check == check,
                answers.c.outcome != NO_ANSWER,
            )
            .order_by(answers.c.subject, answers.c.answer_id)
        )
        with reading(self._engine) as connection:
            return connection.execute(query, {"subjects": subjects}).all()

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

        It is not counted further than `most`.
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

    @outlasting
    def any_of(self, check: str) -> bool:
        """Return whether there is any answer of a check."""
        query = select(answers.c.answer_id).where(answers.c.check == check).limit(1)
        with reading(self._engine) as connection:
            return connection.execute(query).first() is not None

    def about(self, subjects: Sequence[bytes]) -> list[HeldAnswer]:
        """Return every answer about some identifiers, oldest first.

        Raises:
            JournalDamagedError: a sealed body does not open.
        """
        query = select(answers).where(answers.c.subject.in_(subjects)).order_by(answers.c.answer_id)
        found = []
        with reading(self._engine) as connection:
            for row in connection.execute(query):
                sealed = (row.check, bytes(row.subject), row.outcome, bytes(row.body))
                body = open_answer(self._sealer, *sealed)[1]
                found.append(HeldAnswer(row.check, row.outcome, row.answered_at, row.run_id, body))
        return found

    def before(self, run_id: str, check: str, at: int) -> Counter[str]:
        """Return how many of a run's answered lookups of a check had which outcome before.

        A night on which old answers are asked again is no sample of the batch: whoever judges its
        rates (`report/anomaly_check.py`) must know what was to be expected.

        Args:
            run_id: the run.
            check: the check.
            at: an earlier answer is one that arrived before this instant, microseconds.

        Returns:
            Lookups by the outcome of their latest earlier answer; those never answered are left
            out.
        """
        asked = calls.alias("asked")
        latest = (
            select(answers.c.outcome)
            .where(
                answers.c.subject == asked.c.subject,
                answers.c.check == check,
                answers.c.answered_at < at,
                answers.c.outcome.not_in(UNREAD),
            )
            .order_by(answers.c.answered_at.desc(), answers.c.answer_id.desc())
            .limit(1)
            .correlate(asked)
            .scalar_subquery()
        )
        # looked at once: on a first night nobody's answers need be looked for one by one
        others = exists().where(runs.c.run_id != run_id)
        of_run = (asked.c.run_id == run_id, asked.c.check == check)
        answered = asked.c.state == CallState.ANSWERED.value
        each = select(latest.label("outcome")).where(*of_run, answered, others).subquery()
        query = select(each.c.outcome, func.count()).group_by(each.c.outcome)
        with reading(self._engine) as connection:
            rows = connection.execute(query.where(each.c.outcome.is_not(None))).all()
        return Counter({outcome: int(number) for outcome, number in rows})

    def body(self, check: str, answer: StoredAnswer) -> bytes:
        """Return an answer's body as it was received.

        Raises:
            JournalKeyError: it was sealed under a key that is not at hand.
            JournalDamagedError: the sealed body does not open.
        """
        return open_answer(self._sealer, check, answer.subject, answer.outcome, answer.sealed)[1]


_COLUMNS = (
    *(answers.c[name] for name in StoredAnswer._fields[:5]),
    answers.c.answer_id,
    # of the call, looked up of answers that could not be read only
    case(
        (
            answers.c.outcome == Outcome.UNREADABLE.value,
            select(calls.c.trouble).where(calls.c.call_id == answers.c.call_id).scalar_subquery(),
        ),
        else_=null(),
    ).label("trouble"),
)
