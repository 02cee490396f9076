"""Money in the journal: what is spent and reserved, by run, day, month and check.

A reservation is made with the intent and released with the outcome; that of a call in doubt stays.
The counters are updated in the same transaction as the calls, so that a cap holds over all
processes of a journal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import func, select

from nightscreen.journal.database import insert_rows
from nightscreen.journal.schema import calls, prices, spend
from nightscreen.schemas.calls import CallResult, CallState, Caps, ReservationStatus
from nightscreen.schemas.clock import Clock, spending_day
from nightscreen.schemas.money import SeenPrice

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sqlalchemy import Connection, Row

    from nightscreen.journal.database import Database


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
    rows = connection.execute(_COUNTERS.where(spend.c.scope.in_(scopes)))
    return {scope: Spent() for scope in scopes} | _by_scope(rows)


def _by_scope(rows: Iterable[Row[Any]]) -> dict[str, Spent]:
    return {scope: Spent(*counters) for scope, *counters in rows}


_COUNTERS = select(spend.c.scope, *(spend.c[name] for name in Spent._fields))
_ADDED = ", ".join(f"{name} = spend.{name} + excluded.{name}" for name in Spent._fields)


def enter_changes(connection: Connection, changes: Changes) -> None:
    """Add changes to the counters.

    PostgreSQL locks a written row until the commit. So a transaction writes counters last and in
    one order, which prevents deadlocks.
    """
    rows = [(scope, *each) for scope, each in sorted(changes.items())]
    insert_rows(connection, spend, rows, changed=_ADDED)


@dataclass(frozen=True, slots=True)
class Money:
    """Reads spending, and the prices seen."""

    _database: Database = field(repr=False)
    _clock: Clock = field(repr=False)

    def of_run(self, run_id: str) -> Spent:
        """Return a run's counters."""
        return self._one(f"run:{run_id}")

    def today(self) -> Spent:
        """Return the current day's counters, over all runs."""
        return self._one(f"day:{spending_day(self._clock())}")

    def this_month(self) -> Spent:
        """Return the current month's counters, over all runs."""
        return self._one(f"month:{spending_day(self._clock())[:7]}")

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
