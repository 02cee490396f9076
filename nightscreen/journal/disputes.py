"""Disputed costs: an implausible cost counts in full until a balance contradicts it.

Then it counts at the believed price. While a dispute is open, the caps leave out the excess over
that price and the check makes one call at a time, so that a wrong figure does not use up the cap of
a day or a month. `invoices` records the service's invoice.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    and_,
    func,
    insert,
    or_,
    select,
    update,
)

from nightscreen.journal.money import (
    Changes,
    Spent,
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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement, Connection, Row

    from nightscreen.schemas.calls import CallResult

_NEAR_CALLS = 1_000
"""A balance within so many calls of the disputed one is used even while calls are under way."""
_LOOK_BACK_CALLS = 10_000
"""How many calls back the balance before a disputed call is searched."""


class DisputeState(StrEnum):
    """The state of a disputed cost."""

    OPEN = "open"
    """It is implausible, and nothing has contradicted it."""
    DISPROVED = "disproved"
    """The wallet did not lose the money: the call counts at the believed price."""
    CONFIRMED = "confirmed"
    """The wallet lost the money: the call counts in full, under the caps too."""
    UNKNOWN = "unknown"
    """The service never named it."""
    SETTLED = "settled"
    """The call counts at the cost in the invoice."""


IS_OPEN = disputes.c.dispute == DisputeState.OPEN.value

_BORNE = and_(
    calls.c.balance_micro.is_not(None),
    calls.c.state.in_(sorted({*KEPT_STATES, CallState.NOT_CHARGED})),
)
OF_CALL = select(calls, *(column for column in disputes.c if column.name != "call_id")).join(
    disputes, disputes.c.call_id == calls.c.call_id
)
"""A call with its dispute."""


# --- evidence of balances ---


def dispute(
    connection: Connection, fresh: Sequence[CallResult], now: int, changes: Changes
) -> DisputedCosts:
    """Record new disputed costs, and judge open ones by the balances of a group of outcomes.

    This is part of the transaction that has just written the outcomes.

    Returns:
        The checks with open disputes, and the calls whose cost was disproved.
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
        restore_excluded_cost(row, changes)
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
    """Return the believed cost of a call: the latest price seen, else the reserved cost.

    A miss is free, and so is a refusal.
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
    """Return the verdict of a group's balances on an open dispute; None if it stays open.

    The call's own balance can contradict the cost, but not confirm it: an answer with a wrong cost
    may have a wrong balance too.
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
            _compare_balances(connection, row, before, each, open_ids)
            for before in _before(connection, row)
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
    """Return calls with a balance before a disputed one was sent.

    They are the nearest one, and the first of the run, which was made alone.
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


def _compare_balances(
    connection: Connection,
    row: Row[Any],
    before: Row[Any],
    after: CallResult,
    open_ids: Sequence[int],
) -> DisputeState | None:
    """Return the verdict of two balances on a cost between them.

    The most that the call can have cost is the wallet's loss less the known costs of other calls in
    between; the least is the loss less all that other calls may have cost. If the most is below
    half of the named cost, it is disproved; if the least is above half, it is confirmed. If other
    calls cost more than the loss, there was a top-up, and nothing can be said.
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


# --- counting ---


def recount(connection: Connection, row: Row[Any], cost_micro: int, changes: Changes) -> None:
    """Change a call's cost wherever it is stored, and add the difference to the counters."""
    more_micro = cost_micro - (row.cost_micro or 0)
    freed_micro = row.reserved_micro if keeps_reservation(row.state, row.cost_micro) else 0
    changes.add(_scopes(row), Spent(more_micro, -freed_micro))
    of_call = calls.c.call_id == row.call_id
    connection.execute(update(calls).where(of_call).values(cost_micro=cost_micro))
    connection.execute(
        update(answers).where(answers.c.call_id == row.call_id).values(cost_micro=cost_micro)
    )


def restore_excluded_cost(row: Row[Any], changes: Changes) -> None:
    """Let the caps count again the excess that an open dispute had left out."""
    changes.add(_scopes(row), Spent(disputed_micro=-(row.excess_micro or 0)))


def _scopes(call: Row[Any]) -> tuple[str, ...]:
    return scopes_of(call.run_id, call.check, call.intent_at)
