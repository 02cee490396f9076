"""Money in the journal: what is spent and reserved, by run, day, month and check.

A reservation is made with the intent and released with the outcome; that of a call in doubt stays.
The counters are updated in the same transaction as the calls, so that a cap holds over all
processes of a journal.

An implausible cost is disputed: it counts in full until a balance contradicts it, and then at the
believed price. While a dispute is open, the caps leave out the excess over that price and the check
makes one call at a time, so that a wrong figure does not use up the cap of a day or a month.
`settling` records the service's invoice.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import and_, bindparam, func, insert, or_, select, update

from nightscreen.journal.database import insert_rows
from nightscreen.journal.schema import UNSETTLED, answers, calls, disputes, prices, spend
from nightscreen.journal.storage import Part, with_retries
from nightscreen.schemas.calls import (
    KEPT_STATES,
    CallResult,
    CallState,
    Caps,
    DisputedCosts,
    ReservationStatus,
)
from nightscreen.schemas.checks import HITS
from nightscreen.schemas.clock import spending_day
from nightscreen.schemas.money import SeenPrice

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection, Row


RESERVING = frozenset({CallState.INTENT, CallState.IN_DOUBT, CallState.ANSWERED})
"""The states of calls whose worst cost stays reserved while their cost is unknown."""


def keeps_reservation(state: str, cost_micro: int | None) -> bool:
    """Return whether a call's worst cost stays reserved.

    It does until there is an outcome with a known cost: so also for a call in doubt, and for an
    answer without a cost, until the service's invoice settles it.
    """
    return cost_micro is None and state in RESERVING


class Spent(NamedTuple):
    """One scope's counters, or a change of them, in micro-naira.

    Attributes:
        spent_micro: the known cost of calls.
        reserved_micro: the worst cost of calls with an unknown cost.
        calls: calls that were sent, or may have been.
        disputed_micro: the part of `spent_micro` that is not believed, and that no balance has
            confirmed or contradicted.
    """

    spent_micro: int = 0
    reserved_micro: int = 0
    calls: int = 0
    disputed_micro: int = 0

    def plus(self, other: Spent) -> Spent:
        """Return the sum of both."""
        return Spent(*map(sum, zip(self, other, strict=True)))

    @property
    def bound_micro(self) -> int:
        """What is spent or may turn out to be; a disputed cost counts at the believed price."""
        return self.spent_micro + self.reserved_micro - self.disputed_micro


class Changes(dict[str, Spent]):
    """The changes of counters in one transaction, by scope."""

    def add(self, scopes: Iterable[str], change: Spent) -> None:
        """Add a change to some scopes."""
        for scope in scopes:
            self[scope] = self.get(scope, Spent()).plus(change)


def settled(outcome: CallResult, reserved_micro: int) -> Spent:
    """Return an outcome's change: its reservation becomes spending, or stays if in doubt."""
    if keeps_reservation(outcome.state, outcome.cost_micro):
        return Spent()
    not_sent = outcome.state is CallState.NOT_SENT
    return Spent(outcome.cost_micro or 0, -reserved_micro, -int(not_sent))


@dataclass(slots=True)
class Room:
    """What is left under the caps while a block is granted.

    Attributes:
        micro: money, None without a cap.
        calls: calls of the check today, None without a quota.
        limit_micro: the most a call may cost while its price is unconfirmed; None if confirmed.
        risk_micro: what calls under way with an unconfirmed price may cost beyond their
            reservation.
        slots: calls that may be added to those under way, None if not limited.
    """

    micro: int | None
    calls: int | None
    limit_micro: int | None = None
    risk_micro: int = 0
    slots: int | None = None

    def refusal(self, worst_micro: int) -> ReservationStatus | None:
        """Return why one more call does not fit, or None.

        Several calls with an unconfirmed price are under way together only if all of them fit at
        the highest believed price. Otherwise there is one at a time, and no other call that would
        not fit if it cost that much. So at most one call can exceed a cap.
        """
        if self.calls is not None and self.calls < 1:
            return ReservationStatus.QUOTA
        busy = ReservationStatus.BUSY if self.slots is not None and self.slots < 1 else None
        if self.micro is None:
            return busy
        if self.micro < worst_micro:
            return ReservationStatus.UNAFFORDABLE
        alone = self.limit_micro is not None and not self.risk_micro
        if alone or self.micro - self.risk_micro >= max(worst_micro, self.limit_micro or 0):
            return busy
        return ReservationStatus.LATER

    def take(self, worst_micro: int) -> None:
        """Subtract one call from what is left."""
        if self.micro is not None:
            self.micro -= worst_micro
        if self.calls is not None:
            self.calls -= 1
        if self.slots is not None:
            self.slots -= 1
        if self.limit_micro is not None:
            self.risk_micro += max(0, self.limit_micro - worst_micro)


def scopes_of(run_id: str, check: str, at: int) -> tuple[str, str, str, str]:
    """Return the scopes a call counts for: month, day, run, and the check's day."""
    day = spending_day(at)
    return f"month:{day[:7]}", f"day:{day}", f"run:{run_id}", f"day:{day}:{check}"


def headroom(counters: Mapping[str, Spent], caps: Caps, scopes: Sequence[str], check: str) -> Room:
    """Return how much money and how many calls still fit under every cap.

    The scopes are those of `scopes_of`.
    """
    month, day, run, day_check = scopes
    limits = ((run, caps.run_micro), (day, caps.day_micro), (month, caps.month_micro))
    rooms = [cap - counters[scope].bound_micro for scope, cap in limits if cap is not None]
    most = caps.calls_today(check)
    return Room(
        micro=min(rooms) if rooms else None,
        calls=None if most is None else most - counters[day_check].calls,
    )


def read_scopes(connection: Connection, scopes: Collection[str]) -> dict[str, Spent]:
    """Return the counters of each scope, zeros if it has none."""
    rows = connection.execute(_COUNTERS_OF, {"scopes": list(scopes)})
    return {scope: Spent() for scope in scopes} | _by_scope(rows)


def _by_scope(rows: Iterable[Row[Any]]) -> dict[str, Spent]:
    return {scope: Spent(*counters) for scope, *counters in rows}


_COUNTERS = select(spend.c.scope, *(spend.c[name] for name in Spent._fields))
_COUNTERS_OF = _COUNTERS.where(spend.c.scope.in_(bindparam("scopes", expanding=True)))
_ADDED = ", ".join(f"{name} = spend.{name} + excluded.{name}" for name in Spent._fields)


def enter_changes(connection: Connection, changes: Changes) -> None:
    """Add changes to the counters.

    PostgreSQL locks a written row until the commit. So a transaction writes counters last and in
    one order, which prevents deadlocks.
    """
    rows = [(scope, *each) for scope, each in sorted(changes.items())]
    insert_rows(connection, spend, rows, changed=_ADDED)


class Money(Part):
    """Reads spending, and the prices seen."""

    def of_run(self, run_id: str) -> Spent:
        """Return a run's counters."""
        return self._one(f"run:{run_id}")

    def today(self) -> Spent:
        """Return the current day's counters, over all runs."""
        return self._one(f"day:{spending_day(self._clock())}")

    def this_month(self) -> Spent:
        """Return the current month's counters, over all runs."""
        return self._one(f"month:{spending_day(self._clock())[:7]}")

    @with_retries
    def left(self, run_id: str, caps: Caps) -> int | None:
        """Return the micro-naira left under every cap of a run, or None without a cap."""
        scopes = scopes_of(run_id, "", self._clock())
        with self._database.reading() as connection:
            left = headroom(read_scopes(connection, scopes), caps, scopes, "").micro
        return None if left is None else max(0, left)

    def _one(self, scope: str) -> Spent:
        found = _by_scope(self._database.fetch(_COUNTERS.where(spend.c.scope == scope)))
        return found.get(scope, Spent())

    def _all(self, like: str) -> dict[str, Spent]:
        """Return the scopes of one pattern with their counters, newest first."""
        query = _COUNTERS.where(spend.c.scope.like(like)).order_by(spend.c.scope.desc())
        return _by_scope(self._database.fetch(query))

    def by_day(self) -> list[tuple[str, str, Spent]]:
        """Return day, check and counters of all days, newest first."""
        parts = ((scope.split(":"), each) for scope, each in self._all("day:%:%").items())
        return [(day, check, counters) for (_, day, check), counters in parts]

    def by_run(self) -> dict[str, Spent]:
        """Return the counters of every run that has made calls."""
        return {scope.removeprefix("run:"): each for scope, each in self._all("run:%").items()}

    def prices(self) -> dict[str, SeenPrice]:
        """Return the prices seen so far, by check."""
        return {row.check: SeenPrice(*row[1:4]) for row in self._database.fetch(select(prices))}

    def price_rises(self, run_id: str) -> int:
        """Return how much more than reserved a run's calls cost, in micro-naira.

        A cap can be exceeded by this at most: prices rose while calls were in flight.
        """
        excess = calls.c.cost_micro - calls.c.reserved_micro
        query = select(func.sum(excess)).where(calls.c.run_id == run_id, excess > 0)
        return int(self._database.fetch_value(query) or 0)


# --- disputed costs ---

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
