"""Stored answers, found by pseudonym and opened with the data key; and lookups without an answer.

`planning/` judges whether an answer is fresh and what it means for a row. When a stored body that
could not be read becomes readable, its answer keeps call, time and cost, and gets its outcome.
Calls in doubt are counted, so that a lookup is not bought again and again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import (
    Integer,
    and_,
    bindparam,
    case,
    exists,
    func,
    literal,
    null,
    or_,
    select,
    update,
)

from nightscreen.journal.calls import (
    NO_ANSWER,
    OUTAGE,
    UNREAD,
    open_answer,
)
from nightscreen.journal.money import Changes, Spent, enter_changes, scopes_of
from nightscreen.journal.schema import ANSWER, UNSETTLED, answers, calls, runs
from nightscreen.journal.storage import Part, with_retries
from nightscreen.schemas.calls import UNREAD_TROUBLES, CallState
from nightscreen.schemas.checks import HITS, Outcome

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from sqlalchemy import ColumnElement, Connection


_BLOCK = 4000  # pseudonyms, each a parameter: SQLite takes 32,766 in one statement
OPENED_AT_ONCE = 500  # answers: bounds memory, since each has its body
_NEVER = 2**63 - 1  # the highest number that the database holds: no answer comes after it
_WITH_RECORD = sorted(each.value for each in (*HITS, Outcome.UNREADABLE))
_RECENT = 20_000  # the newest answers in which a streak is counted


class StoredAnswer(NamedTuple):
    """The latest answer to a lookup.

    Attributes:
        outcome: the outcome, before it is compared with a row.
        answered_at: instant in microseconds.
        cost_micro: its cost; None if the service did not say.
        current: whether it counts at any age: the run has asked for it, or it came since the run's
            plan.
        sealed: the body as received, sealed; empty if bodies were not requested.
    """

    subject: bytes
    outcome: str
    answered_at: int
    run_id: str
    cost_micro: int | None
    current: bool
    sealed: bytes

    def __repr__(self) -> str:
        """Show the answer without its body."""
        return f"StoredAnswer(outcome={self.outcome!r}, sealed=***)"


@dataclass(frozen=True, slots=True)
class OpenedAnswer:
    """One answer with its decrypted body and facts of its call.

    Attributes:
        kind: the kind of the identifier that was asked by.
        outcome: the stored outcome.
        cost_micro: its cost; None if unknown.
        asked: the identifier that was asked about, only for an answer that could not be read.
    """

    answer_id: int
    call_id: int
    run_id: str
    check: str
    kind: str
    subject: bytes = field(repr=False)
    status: int | None
    answered_at: int
    cost_micro: int | None
    outcome: str
    asked: str = field(repr=False)
    body: bytes = field(repr=False)


class Doubts(NamedTuple):
    """How often a lookup was recently sent without a known answer.

    Attributes:
        attempts: calls in doubt.
        unread: those of them whose response could not be read.
        unread_ever: the same at any time.
    """

    attempts: int = 0
    unread: int = 0
    unread_ever: int = 0


class Since(NamedTuple):
    """The instants from which calls in doubt count, in microseconds.

    Attributes:
        lost: for calls without a response.
        unread: for calls whose response could not be read.
        session: for the run's own calls, in place of the other two.
    """

    lost: int
    unread: int
    session: int


class Answers(Part):
    """Reads stored answers, and settles those that have become readable."""

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
        """Yield the latest answers to many lookups, in blocks.

        An answer that another run could not read in an outage of the check is left out.

        Args:
            check: the check.
            subjects: pseudonyms, ascending, each once: the order of the index, so that neighbours
                share pages.
            run_id: the run that reads them.
            since: position in the journal (`position`) after which answers are current.
            bodies: whether to read bodies too.
        """
        body = answers.c.body if bodies else literal(b"")
        query = (
            select(*_COLUMNS, body.label("body"))
            .where(
                answers.c.subject.in_(bindparam("subjects", expanding=True)),
                answers.c.check == check,
                answers.c.outcome != NO_ANSWER,
            )
            .order_by(answers.c.subject, answers.c.answer_id)
        )
        for start in range(0, len(subjects), _BLOCK):
            rows = self._database.fetch(query, {"subjects": subjects[start : start + _BLOCK]})
            own = {row.subject for row in rows if row.run_id == run_id}  # ever asked by the run
            last = {row.subject: row for row in rows}
            yield [
                StoredAnswer._make(
                    (*row[:5], row.subject in own or row.answer_id > since, row.body)
                )
                for row in last.values()
                if row.trouble != OUTAGE or row.run_id == run_id or not run_id
            ]

    @with_retries
    def position(self) -> int:
        """Return the journal's current position: every later answer has a higher number.

        It orders answers for all machines, whatever their clocks say.
        """
        with self._database.reading_settled() as connection:
            return int(connection.execute(select(func.max(answers.c.answer_id))).scalar() or 0)

    def unreadable_streak(self, check: str, most: int) -> int:
        """Return how many charged answers in a row, up to now, could not be read.

        At most `most` are counted.
        """
        newest = select(answers).order_by(answers.c.answer_id.desc()).limit(_RECENT).subquery()
        query = (
            select(newest.c.outcome, newest.c.cost_micro)
            .where(newest.c.check == check, newest.c.outcome.in_(_WITH_RECORD))
            .order_by(newest.c.answer_id.desc())
        )
        found = 0
        for outcome, cost_micro in self._database.fetch(query):
            if outcome != Outcome.UNREADABLE or found == most:
                break
            found += bool(cost_micro)
        return found

    def any_of(self, check: str) -> bool:
        """Return whether there is any answer of a check."""
        query = select(answers.c.answer_id).where(answers.c.check == check).limit(1)
        return bool(self._database.fetch(query))

    def before(self, run_id: str, check: str, at: int) -> Counter[str]:
        """Count the earlier outcomes of a run's answered lookups of a check.

        A run that asks again about old answers is no random sample of the batch, so the anomaly
        check (`report/anomaly_check.py`) needs the expected outcomes.

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
        # checked once: in a first run there are no earlier answers to look for
        others = exists().where(runs.c.run_id != run_id)
        of_run = (asked.c.run_id == run_id, asked.c.check == check)
        answered = asked.c.state == CallState.ANSWERED.value
        each = select(latest.label("outcome")).where(*of_run, answered, others).subquery()
        query = select(each.c.outcome, func.count()).group_by(each.c.outcome)
        rows = self._database.fetch(query.where(each.c.outcome.is_not(None)))
        return Counter({outcome: int(number) for outcome, number in rows})

    # --- bodies ---

    def body(self, check: str, answer: StoredAnswer) -> bytes:
        """Return an answer's body as it was received.

        Raises:
            JournalKeyError: it was sealed under a key that is not available.
            JournalDamagedError: the sealed body does not open.
        """
        return open_answer(self._sealer, check, answer.subject, answer.outcome, answer.sealed)[1]

    def about(self, subjects: Collection[bytes]) -> list[OpenedAnswer]:
        """Return every answer about some identifiers, oldest first.

        Raises:
            JournalDamagedError: a sealed body does not open.
        """
        blocks = self._opened(answers.c.subject.in_(subjects))
        return [each for block in blocks for each in block]

    def unread(self) -> Iterator[list[OpenedAnswer]]:
        """Yield the answers that could not be read, in blocks, oldest first.

        Raises:
            JournalDamagedError: a body does not open.
        """
        return self._opened(answers.c.outcome.in_(UNREAD))

    def _opened(self, which: ColumnElement[bool]) -> Iterator[list[OpenedAnswer]]:
        of_call = answers.join(calls, answers.c.call_id == calls.c.call_id)
        query = select(*_OPENED).select_from(of_call).where(which)
        for rows in self._database.in_blocks(query, answers.c.answer_id, size=OPENED_AT_ONCE):
            found = []
            for row in rows:
                known = row._asdict()
                sealed = known.pop("body")
                asked, body = open_answer(self._sealer, row.check, row.subject, row.outcome, sealed)
                found.append(OpenedAnswer(**known, asked=asked, body=body))
            yield found

    def settle(self, read: Sequence[tuple[OpenedAnswer, Outcome, int | None]]) -> int:
        """Save the outcomes of answers that have become readable; return how many were saved.

        An answer that was erased or read meanwhile is left unchanged, so this is safe to repeat.

        Args:
            read: each answer with its outcome and its cost in micro-naira; None if the response
                rules do not give a cost: its worst cost then stays reserved.

        Raises:
            JournalError: nothing of it was committed.
        """
        if not read:
            return 0
        with self._database.writing() as connection:
            return sum(self._settle_one(connection, *each) for each in read)

    def _settle_one(
        self, connection: Connection, each: OpenedAnswer, outcome: Outcome, cost_micro: int | None
    ) -> int:
        sealed = self._sealer.seal(each.body, ANSWER.context(each.check, each.subject))
        query = select(calls.c.intent_at, calls.c.reserved_micro, calls.c.cost_micro)
        row = connection.execute(query.where(calls.c.call_id == each.call_id)).one()
        # an invoice may have settled the cost since the body was read
        cost = cost_micro if row.cost_micro is None else row.cost_micro
        known = {"outcome": outcome.value, "cost_micro": cost}
        done = connection.execute(
            update(answers)
            .where(answers.c.answer_id == each.answer_id, answers.c.outcome == each.outcome)
            .values(known | {"body": sealed})
        ).rowcount
        if not done:
            return 0
        answered = known | {"state": CallState.ANSWERED.value, "trouble": None}
        of_call = calls.c.call_id == each.call_id
        connection.execute(update(calls).where(of_call).values(answered))
        if each.outcome == NO_ANSWER and row.cost_micro is None and cost is not None:
            changes = Changes()
            scopes = scopes_of(each.run_id, each.check, row.intent_at)
            changes.add(scopes, Spent(cost, -row.reserved_micro))
            enter_changes(connection, changes)
        return 1

    # --- calls in doubt, counted ---

    def doubts(self, check: str, run_id: str, since: Since) -> dict[bytes, Doubts]:
        """Return the lookups of a check with a call in doubt, with the numbers that count.

        An unreadable response in an outage counts as an attempt, only in its own run's session.
        """
        of_outage = func.coalesce(calls.c.trouble, "") == OUTAGE
        is_unread = calls.c.trouble.in_(UNREAD_TROUBLES)
        own = and_(calls.c.run_id == run_id, calls.c.settled_at >= since.session)
        lost = and_(calls.c.settled_at >= since.lost, ~of_outage)
        counted = (
            or_(own, lost),
            and_(is_unread, or_(own, calls.c.settled_at >= since.unread)),
            is_unread,
        )
        numbers = (func.sum(each.cast(Integer)).cast(Integer) for each in counted)
        query = (
            select(calls.c.subject, *numbers)
            .where(UNSETTLED, calls.c.state == CallState.IN_DOUBT.value, calls.c.check == check)
            .group_by(calls.c.subject)
        )
        rows = self._database.fetch(query)
        return {bytes(subject): Doubts(*numbers) for subject, *numbers in rows}

    def mark_outage(self, run_id: str, check: str, since: int) -> None:
        """Mark a run's unreadable responses since an instant as an outage of the check.

        Such calls do not count later: another run may ask again at once.
        """
        in_doubt = calls.c.state == CallState.IN_DOUBT.value
        unread = and_(in_doubt, calls.c.trouble.in_(UNREAD_TROUBLES))
        outage = update(calls).where(
            calls.c.run_id == run_id,
            calls.c.check == check,
            calls.c.settled_at >= since,
            or_(unread, calls.c.state == CallState.UNREADABLE.value),
        )
        self._database.execute(outage.values(trouble=OUTAGE))


_COLUMNS = (
    *(answers.c[name] for name in StoredAnswer._fields[:5]),
    answers.c.answer_id,
    # of the call; only read for answers that could not be read
    case(
        (
            answers.c.outcome == Outcome.UNREADABLE.value,
            select(calls.c.trouble).where(calls.c.call_id == answers.c.call_id).scalar_subquery(),
        ),
        else_=null(),
    ).label("trouble"),
)
_OPENED = (
    *(answers.c[name] for name in ("answer_id", "call_id", "run_id", "check", "subject")),
    *(answers.c[name] for name in ("answered_at", "cost_micro", "outcome", "body")),
    *(calls.c.kind, calls.c.status),
)
