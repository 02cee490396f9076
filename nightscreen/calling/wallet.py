"""Wallet: the least that the prepaid account can hold, and the prices that answers show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nightscreen.calling.stops import Objection
from nightscreen.client.response_rules import ChargeStatus
from nightscreen.schemas.money import MOST_COST_MICRO, naira_words
from nightscreen.schemas.stops import StopReason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nightscreen.calling.stops import Stops
    from nightscreen.client.classify import CallOutcome

BLIND_ANSWERS = 100  # answers without a balance after which a balance floor cannot be watched


@dataclass(slots=True)
class Wallet:
    """The known state of the prepaid balance during a run; all amounts in micro-naira.

    Answers overtake each other, so an answer's balance may lack charges that are already known
    here: charges that settled while the answer was under way are subtracted from its balance.
    """

    stops: Stops  # stopped if no call can be sent without breaking the floor
    # no call is sent that could take the balance below it; None for no floor
    floor_micro: int | None = None
    # the highest cost that is believed to be a price, by check
    price_limits: Mapping[str, int] = field(default_factory=dict)
    balance_micro: int | None = None  # the latest balance of an answer
    # the least that can be left, according to the answers; None while unknown
    least_micro: int | None = None
    settled_micro: int = 0  # the most that this run's attempts can have cost
    bound_micro: int = 0  # the worst cost of calls reserved or in flight
    # the highest price seen in this run, by check; prices may rise meanwhile
    highest_micro: dict[str, int] = field(default_factory=dict)
    # checks with a cost that a balance contradicted
    disproved: set[str] = field(default_factory=set)
    _answers: int = 0
    _short: bool = False

    def forget(self) -> None:
        """Treat the balance as unknown until the next answer: there may have been a top-up."""
        self.least_micro = None
        self.settled_micro = self._answers = 0

    def record_charge(self, charged_micro: int, balance_micro: int | None, mark: int) -> None:
        """Record the charge of an attempt that has ended.

        Args:
            charged_micro: the most it can have cost.
            balance_micro: the answer's balance, if any.
            mark: `settled_micro` when it was sent.
        """
        overtaken = self.settled_micro - mark
        self.settled_micro += charged_micro
        if self.least_micro is not None:
            self.least_micro -= charged_micro
        if balance_micro is None:
            return
        least = balance_micro - overtaken
        if self.least_micro is None or balance_micro < self.least_micro:
            self.least_micro = least
        else:
            self.least_micro = max(self.least_micro, least)
        self.balance_micro = balance_micro

    def left(self) -> int | None:
        """Return the least that is left for further calls; None if no balance is known."""
        if self.least_micro is None:
            return None
        return self.least_micro - self.bound_micro - (self.floor_micro or 0)

    def bind(self, worst_micro: int, number: int) -> int:
        """Reserve the worst cost of calls; return how many of them do not break the floor.

        If none fits, lanes are woken when calls under way have settled; if there are no such calls,
        the run stops.
        """
        bound, left = number, self.left()
        if self.floor_micro is not None and left is not None:
            bound = min(number, max(0, left) // max(1, worst_micro))
        elif self.floor_micro is not None and self._answers < BLIND_ANSWERS:
            bound = min(number, int(self.bound_micro == 0))  # alone until an answer has a balance
        if bound == 0:
            self._short = True
            if self.bound_micro == 0:
                self.stops.stop(StopReason.BALANCE)
        self.bound_micro += bound * worst_micro
        return bound

    def unbind(self, worst_micro: int, number: int = 1) -> None:
        """Release the worst cost of calls that have settled or were not made."""
        self.bound_micro -= number * worst_micro
        if self._short and number:
            self._short = False
            self.stops.wake()

    # --- prices ---

    def record_price(self, check: str, cost_micro: int | None, reserved_micro: int) -> None:
        """Record an answer's cost, None if unknown; add a notice if the price rose.

        A cost that is too high to be a price is none.
        """
        self._answers += 1
        cost = cost_micro or 0
        known = self.highest_micro.get(check, 0)
        rose = known < cost <= self.price_limits.get(check, cost)
        if rose:
            self.highest_micro[check] = cost
        if rose and cost > reserved_micro:
            self.stops.notices.append(
                f"the price of {check} rose from {naira_words(reserved_micro)} to "
                f"{naira_words(cost)} while the run was under way"
            )

    def implausible_cost(self, check: str, reading: CallOutcome) -> int | None:
        """Return an answer's cost if it is too high to be a price, else None."""
        limit = self.price_limits.get(check)
        if limit is None or reading.verdict is ChargeStatus.IN_DOUBT:
            return None
        if reading.absurd_cost:  # more than any counter could hold
            return MOST_COST_MICRO
        cost = reading.cost_micro
        return cost if cost is not None and cost > limit else None

    def report_implausible_cost(
        self, check: str, subject: bytes, named_micro: int, *, disproved: bool
    ) -> None:
        """Add a notice of a cost that is not believed; unless disproved, it may stop its check."""
        text = (
            f"a {check} call cost {naira_words(named_micro)} by its answer, and no more than "
            f"{naira_words(self.price_limits[check])} is believed to be a price"
        )
        if disproved:
            if check not in self.disproved:
                self.disproved.add(check)
                self.stops.notices.append(
                    f"{text}: the balance contradicts it, and the call counts at the price known "
                    "before"
                )
        elif not self.stops.evidence(check).knows(Objection.COST, subject):
            self.stops.notices.append(
                f"{text}: it counts in full until a balance contradicts it, and the check goes on "
                "one call at a time; if you have the service's invoice, enter what it says: "
                "nightscreen journal settle"
            )
            self.stops.record_objection(check, Objection.COST, subject)
