"""Costs that are not believed or not known: what a balance says of them, and an invoice.

A cost far beyond the price list counts in full until a balance contradicts it, then at the believed
price. While it is open the caps leave out what it names beyond that price, and its check is asked
one call at a time, so that a wrong figure ends neither a night nor a month. What the service's
invoice says is entered by a person; below what was reserved it counts once a second person has
confirmed it, where the desk has users. Every value is kept.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import (
    and_,
    func,
    insert,
    or_,
    select,
    update,
)

from nightscreen.journal.actor import SETTLE
from nightscreen.journal.engine import fetch, writing
from nightscreen.journal.money import (
    Changes,
    Spent,
    enter_changes,
    keeps_reservation,
    scopes_of,
)
from nightscreen.journal.schema import (
    UNSETTLED,
    answers,
    calls,
    disputes,
    prices,
)
from nightscreen.schemas.calls import KEPT_STATES, CallState, DisputedCosts
from nightscreen.schemas.checks import HITS
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.money import MOST_COST_MICRO, naira_text, naira_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement, Connection, Row

    from nightscreen.journal import Journal
    from nightscreen.journal.actor import Actor
    from nightscreen.journal.storage import Storage
    from nightscreen.schemas.calls import CallResult

_NEAR_CALLS = 1_000
"""A balance of a call so near to the disputed one is looked at while others are under way too."""
_LOOK_BACK_CALLS = 10_000
"""How far back the balance before a disputed call is looked for."""


class DisputeState(StrEnum):
    """What is known of a call's cost."""

    OPEN = "open"
    """It is beyond belief; nothing has contradicted it."""
    DISPROVED = "disproved"
    """The wallet did not lose it: it counts at the believed price."""
    CONFIRMED = "confirmed"
    """The wallet lost it: it counts in full, under the caps too."""
    UNKNOWN = "unknown"
    """The service never named it."""
    SETTLED = "settled"
    """It counts as the invoice says."""


IS_OPEN = disputes.c.dispute == DisputeState.OPEN.value

_BORNE = and_(
    calls.c.balance_micro.is_not(None),
    calls.c.state.in_(sorted({*KEPT_STATES, CallState.NOT_CHARGED})),
)
OF_CALL = select(calls, *(column for column in disputes.c if column.name != "call_id")).join(
    disputes, disputes.c.call_id == calls.c.call_id
)
"""A call with its dispute."""


# --- what a balance says ---


def dispute(
    connection: Connection, fresh: Sequence[CallResult], now: int, changes: Changes
) -> DisputedCosts:
    """Enter costs that are not believed, and see what the balances of a group say of open ones.

    This is in the transaction that has just written the outcomes.

    Returns:
        What is open and what was disproved.
    """
    for each in fresh:
        if each.named_micro is not None:
            _enter(connection, each, now, changes)
    query = OF_CALL.where(IS_OPEN).order_by(calls.c.call_id)
    rows = connection.execute(query.with_for_update(of=disputes)).all()
    disproved = set()
    open_ids = [row.call_id for row in rows]
    checks = set()
    for row in rows:
        verdict = _verdict(connection, row, fresh, open_ids)
        if verdict is None:
            checks.add(row.check)
            continue
        if verdict is DisputeState.DISPROVED:
            recount(connection, row, _believed(connection, row), changes)
            disproved.add(row.call_id)
        leave_out_no_more(row, changes)
        done = {"dispute": verdict.value, "excess_micro": 0}
        connection.execute(update(disputes).where(disputes.c.call_id == row.call_id).values(**done))
    return DisputedCosts(frozenset(checks), frozenset(disproved))


def _enter(connection: Connection, each: CallResult, now: int, changes: Changes) -> None:
    row = connection.execute(select(calls).where(calls.c.call_id == each.call_id)).one()
    excess = max(0, (row.cost_micro or 0) - _believed(connection, row))
    changes.add(_scopes(row), Spent(disputed_micro=excess))
    entered = {
        "call_id": each.call_id,
        "dispute": DisputeState.OPEN.value,
        "named_micro": each.named_micro,
        "excess_micro": excess,
        "found_at": now,
    }
    connection.execute(insert(disputes), entered)


def _believed(connection: Connection, row: Row[Any]) -> int:
    """Return what a call is believed to cost: the latest price seen, else what was reserved.

    An answer that found nothing is free, and so is a refusal.
    """
    if row.state != CallState.UNREADABLE and row.outcome not in HITS:
        return 0
    seen = connection.execute(
        select(prices.c.latest_micro).where(prices.c.check == row.check)
    ).scalar()
    return int(seen or row.reserved_micro)


def _verdict(
    connection: Connection, row: Row[Any], fresh: Sequence[CallResult], open_ids: Sequence[int]
) -> DisputeState | None:
    """Return what the balances of a group say of an open cost; None where they leave it open.

    Its own balance can contradict it, but not confirm it: an answer whose cost is wrong may well
    bear a wrong balance too.
    """
    own = [each for each in fresh if each.call_id == row.call_id]
    later = [each for each in fresh if each.sent_at is not None and each.sent_at >= row.settled_at]
    later = [each for each in later if each.balance_micro is not None]
    newest = max(later, key=lambda each: each.sent_at or 0, default=None)
    if newest is not None and newest.call_id - row.call_id > _NEAR_CALLS and _is_busy(connection):
        newest = None
    for each in (*own, *([] if newest is None else [newest])):
        if each.balance_micro is None:
            continue
        found = {
            _told(connection, row, before, each, open_ids) for before in _before(connection, row)
        }
        if DisputeState.DISPROVED in found:
            return DisputeState.DISPROVED
        if DisputeState.CONFIRMED in found and each.call_id != row.call_id:
            return DisputeState.CONFIRMED
    return None


def _is_busy(connection: Connection) -> bool:
    """Return whether calls are under way, whose charges make a balance less exact."""
    under_way = select(calls.c.call_id).where(UNSETTLED, calls.c.state == CallState.INTENT.value)
    return connection.execute(under_way.limit(1)).first() is not None


def _before(connection: Connection, row: Row[Any]) -> list[Row[Any]]:
    """Return calls that bore a balance before a disputed one was sent.

    The nearest, and the first of its run, which was alone on the wire.
    """
    query = select(
        calls.c.call_id, calls.c.balance_micro, calls.c.sent_at, calls.c.settled_at
    ).where(
        _BORNE,
        calls.c.call_id.between(row.call_id - _LOOK_BACK_CALLS, row.call_id - 1),
        calls.c.sent_at.is_not(None),
        calls.c.settled_at <= row.sent_at,
    )
    nearest = connection.execute(query.order_by(calls.c.call_id.desc()).limit(1)).all()
    of_run = query.where(calls.c.run_id.concat("") == row.run_id)
    return [*nearest, *connection.execute(of_run.order_by(calls.c.call_id).limit(1)).all()]


def _told(
    connection: Connection,
    row: Row[Any],
    before: Row[Any],
    after: CallResult,
    open_ids: Sequence[int],
) -> DisputeState | None:
    """Return what two balances say of a cost between them.

    What the wallet lost, less what others surely cost between, is the most that the call can have
    cost; less all that others may have cost, the least. What is not the half of the cost named
    contradicts it, what is more confirms it. Where others cost more than the wallet lost, money was
    paid in, and nothing is known.
    """
    lost = before.balance_micro - (after.balance_micro or 0)
    near = (
        calls.c.call_id.between(before.call_id - _NEAR_CALLS, after.call_id + _NEAR_CALLS),
        calls.c.call_id.not_in([before.call_id, row.call_id]),
        calls.c.state != CallState.NOT_SENT.value,
    )
    sure = _sum(
        connection,
        func.coalesce(calls.c.cost_micro, 0),
        *near,
        calls.c.sent_at >= before.settled_at,
        calls.c.settled_at <= after.sent_at,
        calls.c.call_id.not_in(open_ids),
    )
    most = lost - sure
    if most < 0:
        return None
    if 2 * most < row.named_micro:
        return DisputeState.DISPROVED
    others = _sum(
        connection,
        func.coalesce(calls.c.cost_micro, calls.c.reserved_micro),
        *near,
        calls.c.intent_at <= after.settled_at,
        or_(calls.c.settled_at.is_(None), calls.c.settled_at >= before.sent_at),
    )
    return DisputeState.CONFIRMED if 2 * (lost - others) > row.named_micro else None


def _sum(connection: Connection, what: ColumnElement[int], *where: ColumnElement[bool]) -> int:
    return int(
        connection.execute(select(func.coalesce(func.sum(what), 0)).where(*where)).scalar_one()
    )


# --- what counts ---


def recount(connection: Connection, row: Row[Any], cost_micro: int, changes: Changes) -> None:
    """Let a call count at another cost, wherever its cost is kept, and enter the difference."""
    more_micro = cost_micro - (row.cost_micro or 0)
    freed_micro = row.reserved_micro if keeps_reservation(row.state, row.cost_micro) else 0
    changes.add(_scopes(row), Spent(more_micro, -freed_micro))
    of_call = calls.c.call_id == row.call_id
    connection.execute(update(calls).where(of_call).values(cost_micro=cost_micro))
    connection.execute(
        update(answers).where(answers.c.call_id == row.call_id).values(cost_micro=cost_micro)
    )


def leave_out_no_more(row: Row[Any], changes: Changes) -> None:
    """Let the caps count again what an open dispute had left out of them."""
    changes.add(_scopes(row), Spent(disputed_micro=-(row.excess_micro or 0)))


def _scopes(call: Row[Any]) -> tuple[str, ...]:
    return scopes_of(call.run_id, call.check, call.intent_at)


# --- what an invoice says ---


# the highest number that the database holds: a higher one that somebody types is an error there
_HIGHEST_ID = 2**63 - 1


class DisputedCall(NamedTuple):
    """A call whose cost was not believed or not known, and what became of it.

    Attributes:
        at: when it was sent.
        state: what is known of its cost, a `DisputeState`.
        named_micro: what the answer named; None where it named nothing.
        counted_micro: what counts; None where it is not known, and the reservation counts.
        before_micro: what counted before the invoice's figure.
        confirmed_by: who confirmed it; None where nobody had to, or has.
        settled_at: since when it counts; None where it waits for a second person.
    """

    call_id: int
    run_id: str
    check: str
    at: int
    state: str
    named_micro: int | None
    counted_micro: int | None
    reserved_micro: int
    before_micro: int | None
    invoice_micro: int | None
    entered_by: str | None
    confirmed_by: str | None
    settled_at: int | None

    @property
    def waits(self) -> bool:
        """Return whether the invoice's figure waits for a second person."""
        return self.invoice_micro is not None and self.settled_at is None

    def document(self) -> dict[str, Any]:
        """Return it for programs; money as decimal text in naira, instants in UTC."""
        return {
            "call_id": self.call_id,
            "check": self.check,
            "at": instant_text(self.at),
            "state": self.state,
            "named": naira_text(self.named_micro),
            "counted": naira_text(self.counted_micro),
            "before": naira_text(self.before_micro),
            "invoice": naira_text(self.invoice_micro),
        }


def disputed_calls(journal: Storage, run_id: str = "", *, limit: int = 0) -> list[DisputedCall]:
    """Return the calls whose cost was not believed, or was settled by invoice, newest first."""
    query = _DISPUTED.order_by(calls.c.call_id.desc())
    if run_id:
        query = query.where(calls.c.run_id == run_id)
    return [DisputedCall(*row) for row in fetch(journal.engine, query.limit(limit or None))]


def settle_call(journal: Journal, actor: Actor, call_id: int, cost_micro: int) -> DisputedCall:
    """Enter what the service's invoice says of a call; what it counted as before is kept.

    Below what was reserved, a figure of the desk counts once a second person has confirmed it.
    Calls of processes that died are put in doubt before; a call under way is refused.

    Raises:
        NotAllowedError: the actor may not settle costs.
        InputError: the cost of the call is neither disputed nor unknown, or the amount is none.
    """
    actor.require(journal, SETTLE)
    journal.calls.recover()
    with writing(journal.engine) as connection:
        row = _settleable(connection, call_id, cost_micro)
        waits = actor.rights is not None and cost_micro < int(row.reserved_micro)
        entered: dict[str, Any] = {
            "before_micro": row.cost_micro,
            "invoice_micro": cost_micro,
            "entered_by": actor.name,
            "confirmed_by": None,
            "invoice_at": None,
        }
        if row.dispute is None:
            unknown = {"dispute": DisputeState.UNKNOWN.value, "excess_micro": 0}
            made = {"call_id": call_id, **unknown, "found_at": journal.clock(), **entered}
            connection.execute(insert(disputes), made)
        else:
            of_call = disputes.c.call_id == call_id
            connection.execute(update(disputes).where(of_call).values(**entered))
        if not waits:
            _apply(connection, journal, call_id)
        done = _find(connection, call_id)
    word = "cost entered" if waits else "cost settled"
    actor.note(journal, word, run_id=done.run_id, **done.document())
    return done


def confirm_invoice(journal: Journal, actor: Actor, call_id: int, seen: str) -> DisputedCall:
    """Let a figure that was entered count: a second person has confirmed it.

    `seen` is the figure that the person saw, as `DisputedCall.document` has it.

    Raises:
        NotAllowedError: the actor may not settle costs, or entered the figure.
        InputError: that figure does not wait.
    """
    actor.require(journal, SETTLE)
    with writing(journal.engine) as connection:
        found = _find(connection, call_id)
        if not found.waits or naira_text(found.invoice_micro) != seen:
            raise InputError(f"no such cost of call {call_id} waits for a second person")
        actor.require_other(
            [found.entered_by or ""],
            f"You entered the cost of call {call_id} yourself; somebody else confirms it.",
        )
        confirmed = update(disputes).where(disputes.c.call_id == call_id)
        connection.execute(confirmed.values(confirmed_by=actor.name))
        _apply(connection, journal, call_id)
        done = _find(connection, call_id)
    actor.note(journal, "cost settled", run_id=done.run_id, **done.document())
    return done


def _apply(connection: Connection, journal: Storage, call_id: int) -> None:
    """Let the figure of the invoice count."""
    query = OF_CALL.where(calls.c.call_id == call_id)
    row = connection.execute(query.with_for_update()).one()
    changes = Changes()
    recount(connection, row, row.invoice_micro, changes)
    leave_out_no_more(row, changes)
    done = {
        "dispute": DisputeState.SETTLED.value,
        "excess_micro": 0,
        "before_micro": row.cost_micro,
        "invoice_at": journal.clock(),
    }
    connection.execute(update(disputes).where(disputes.c.call_id == call_id).values(**done))
    enter_changes(connection, changes)


def _settleable(connection: Connection, call_id: int, cost_micro: int) -> Row[Any]:
    """Return a call whose cost may be settled, with its dispute if it has one.

    Raises:
        InputError: there is no such call, its cost is known and believed, it is under way, or the
            amount is none.
    """
    if not 0 <= cost_micro <= MOST_COST_MICRO:
        raise InputError(f"a call costs between ₦0 and {naira_words(MOST_COST_MICRO)}")
    joined = calls.outerjoin(disputes, disputes.c.call_id == calls.c.call_id)
    query = select(*calls.c, disputes.c.dispute).select_from(joined)
    known = 0 < call_id <= _HIGHEST_ID
    row = connection.execute(query.where(calls.c.call_id == call_id)).first() if known else None
    if row is None:
        raise InputError(
            f"there is no call {call_id}; its number is in the report, in calls.parquet, and in: "
            "nightscreen journal in-doubt"
        )
    if row.state == CallState.INTENT:
        raise InputError(f"call {call_id} is under way: settle it once its run has ended")
    if row.dispute is None and not keeps_reservation(row.state, row.cost_micro):
        raise InputError(
            f"the cost of call {call_id} is known and believed, "
            f"{naira_words(row.cost_micro or 0)}: there is nothing to settle"
        )
    return row


def _find(connection: Connection, call_id: int) -> DisputedCall:
    query = _DISPUTED.where(calls.c.call_id == call_id)
    row = connection.execute(query).first() if 0 < call_id <= _HIGHEST_ID else None
    if row is None:
        raise InputError(f"no cost of call {call_id} waits for a second person")
    return DisputedCall(*row)


_DISPUTED = OF_CALL.with_only_columns(
    *(calls.c[name] for name in ("call_id", "run_id", "check")),
    func.coalesce(calls.c.sent_at, calls.c.intent_at),
    *(disputes.c.dispute, disputes.c.named_micro, calls.c.cost_micro, calls.c.reserved_micro),
    *(disputes.c[name] for name in ("before_micro", "invoice_micro", "entered_by")),
    *(disputes.c.confirmed_by, disputes.c.invoice_at),
)
"""Calls as `DisputedCall` has them."""
