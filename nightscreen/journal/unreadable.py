"""What was paid for, or may have been, and brought no answer that can be read.

Bodies that were kept are found again, and settled once they can be read: an answer that is read
after all keeps its call, its time and its cost; only what it says becomes known. Calls in doubt are
counted, so that a lookup is not bought for ever. What a body says, and when a lookup is asked anew,
is decided in `client/`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import Integer, and_, func, or_, select, update

from nightscreen.journal.calls import (
    NO_ANSWER,
    OUTAGE,
    UNREAD,
    answer_context,
    open_answer,
)
from nightscreen.journal.engine import outlast, reading, writing
from nightscreen.journal.money import Changes, Spent, enter_changes, scopes_of
from nightscreen.journal.schema import UNSETTLED, answers, calls
from nightscreen.schemas.calls import UNREAD_TROUBLES, CallState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import ColumnElement, Connection

    from nightscreen.journal.storage import Storage
    from nightscreen.schemas.checks import Outcome

BLOCK = 500  # answers opened at once: bounds memory, as each comes with its body


@dataclass(frozen=True, slots=True)
class UnreadAnswer:
    """One answer that could not be read, with its body opened.

    Attributes:
        cost_micro: what it cost; None where that is not known: its call is in doubt.
        outcome: the word it is kept under.
        asked: the identifier that was asked about.
    """

    answer_id: int
    call_id: int
    run_id: str
    check: str
    kind: str
    subject: bytes = field(repr=False)
    status: int | None
    cost_micro: int | None
    outcome: str
    asked: str = field(repr=False)
    body: bytes = field(repr=False)


def unread_answers(journal: Storage) -> Iterator[list[UnreadAnswer]]:
    """Yield the answers that could not be read, in blocks, oldest first.

    Raises:
        JournalDamagedError: a body does not open.
    """
    of_call = answers.join(calls, answers.c.call_id == calls.c.call_id)
    columns = (
        answers.c.answer_id,
        *(calls.c[name] for name in ("call_id", "run_id", "check", "kind")),
        answers.c.subject,
        calls.c.status,
        *(answers.c[name] for name in ("cost_micro", "outcome", "body")),
    )
    query = select(*columns).select_from(of_call).where(answers.c.outcome.in_(UNREAD))
    last = 0
    while True:
        block = query.where(answers.c.answer_id > last).order_by(answers.c.answer_id).limit(BLOCK)
        with reading(journal.engine) as connection:
            rows = connection.execute(block).all()
        if not rows:
            return
        found = []
        for row in rows:
            known = row._asdict()
            sealed = known.pop("body")
            asked, body = open_answer(journal.sealer, row.check, row.subject, row.outcome, sealed)
            found.append(UnreadAnswer(**known, asked=asked, body=body))
        yield found
        last = rows[-1].answer_id


def settle_read(journal: Storage, read: Sequence[tuple[UnreadAnswer, Outcome, int | None]]) -> int:
    """Write down what answers say that can be read by now; return how many there were.

    One that was erased or read meanwhile is left as it is, so that this may be done twice.

    Args:
        journal: the open journal.
        read: each answer with what it says, and its cost in micro-naira; None where the table does
            not know that either: its worst cost stays reserved.

    Raises:
        JournalError: nothing of it was committed.
    """
    if not read:
        return 0
    with writing(journal.engine) as connection:
        return sum(_settle_one(connection, journal, *each) for each in read)


def _settle_one(
    connection: Connection,
    journal: Storage,
    each: UnreadAnswer,
    outcome: Outcome,
    cost_micro: int | None,
) -> int:
    sealed = journal.sealer.seal(each.body, answer_context(each.check, each.subject))
    query = select(calls.c.intent_at, calls.c.reserved_micro, calls.c.cost_micro)
    row = connection.execute(query.where(calls.c.call_id == each.call_id)).one()
    # an invoice may have said what it cost since the body was read
    cost = cost_micro if row.cost_micro is None else row.cost_micro
    known = {"outcome": outcome.value, "cost_micro": cost}
    done = connection.execute(
        update(answers)
        .where(answers.c.answer_id == each.answer_id, answers.c.outcome == each.outcome)
        .values(known | {"body": sealed})
    ).rowcount
    if not done:
        return 0
    read = update(calls).where(calls.c.call_id == each.call_id)
    connection.execute(read.values(known | {"state": CallState.ANSWERED.value, "trouble": None}))
    if each.outcome == NO_ANSWER and row.cost_micro is None and cost is not None:
        changes = Changes()
        scopes = scopes_of(each.run_id, each.check, row.intent_at)
        changes.add(scopes, Spent(cost, -row.reserved_micro))
        enter_changes(connection, changes)
    return 1


# --- calls in doubt, counted ---


class Doubts(NamedTuple):
    """How often a lookup was sent of late without an answer that is known.

    Attributes:
        attempts: calls in doubt.
        unread: those of them whose response came and could not be read.
        unread_ever: the same, however long ago.
    """

    attempts: int = 0
    unread: int = 0
    unread_ever: int = 0


class Since(NamedTuple):
    """From which instants on calls in doubt count, in microseconds.

    Attributes:
        lost: those that brought nothing.
        unread: those whose response came and could not be read.
        session: those of the run itself, whatever the other two say.
    """

    lost: int
    unread: int
    session: int


def doubts_of(journal: Storage, check: str, run_id: str, since: Since) -> dict[bytes, Doubts]:
    """Return the lookups of a check with a call in doubt, and how many of these count.

    What could not be read in an outage counts in its own run's session only, as an attempt.
    """
    of_outage = func.coalesce(calls.c.trouble, "") == OUTAGE
    is_unread = calls.c.trouble.in_(UNREAD_TROUBLES)
    own = and_(calls.c.run_id == run_id, calls.c.settled_at >= since.session)
    lost = and_(calls.c.settled_at >= since.lost, ~of_outage)
    query = (
        select(
            calls.c.subject,
            _number(or_(own, lost)),
            _number(and_(is_unread, or_(own, calls.c.settled_at >= since.unread))),
            _number(is_unread),
        )
        .where(UNSETTLED, calls.c.state == CallState.IN_DOUBT.value, calls.c.check == check)
        .group_by(calls.c.subject)
    )

    def read() -> dict[bytes, Doubts]:
        with reading(journal.engine) as connection:
            return {
                bytes(subject): Doubts(*numbers) for subject, *numbers in connection.execute(query)
            }

    return outlast(journal.engine, read)


def _number(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.sum(condition.cast(Integer)).cast(Integer)


def mark_outage(journal: Storage, run_id: str, check: str, since: int) -> None:
    """Write down that what a run could not read since an instant was an outage of the check.

    Such calls have no age: another run may ask anew.
    """
    unread = and_(calls.c.state == CallState.IN_DOUBT.value, calls.c.trouble.in_(UNREAD_TROUBLES))
    change = (
        update(calls)
        .where(
            calls.c.run_id == run_id,
            calls.c.check == check,
            calls.c.settled_at >= since,
            or_(unread, calls.c.state == CallState.UNREADABLE.value),
        )
        .values(trouble=OUTAGE)
    )

    def write() -> None:
        with writing(journal.engine) as connection:
            connection.execute(change)

    outlast(journal.engine, write)
