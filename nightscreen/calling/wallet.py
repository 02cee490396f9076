"""Wallet: the least the service's account can hold, and which prices its answers show."""

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
    """What is known of the prepaid balance while a run goes on; all amounts in micro-naira.

    Answers overtake each other, so that the latest balance may not know of charges that are known
    here: what settled while an answer was on its way is taken off the balance it bore.
    """

    stops: Stops  # stopped where nothing can be sent without breaking the floor
    # nothing is sent that could take the balance below it; None for no floor
    floor_micro: int | None = None
    # the highest cost that is believed to be a price, by check
    price_limits: Mapping[str, int] = field(default_factory=dict)
    balance_micro: int | None = None  # the latest balance that an answer bore
    # the least that can be left, as far as answers show; None while unknown
    least_micro: int | None = None
    settled_micro: int = 0  # what attempts of this run can have cost, in all
    bound_micro: int = 0  # worst cost of what is reserved or in flight at this moment
    # the highest price seen in this run, by check; prices may rise under way
    highest_micro: dict[str, int] = field(default_factory=dict)
    # checks with a cost that a balance contradicted
    disproved: set[str] = field(default_factory=set)
    _answers: int = 0
    _short: bool = False

    def forget(self) -> None:
        """Take what is left as unknown until the next answer: there may have been a top-up."""
        self.least_micro = None
        self.settled_micro = self._answers = 0

    def record_charge(self, charged_micro: int, balance_micro: int | None, mark: int) -> None:
        """Enter an attempt that came back.

        Args:
            charged_micro: the most it can have cost.
            balance_micro: the balance it bore, if any.
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
        """Return the least that is left for further calls; None where no balance is known."""
        if self.least_micro is None:
            return None
        return self.least_micro - self.bound_micro - (self.floor_micro or 0)

    def bind(self, worst_micro: int, number: int) -> int:
        """Take the worst cost of calls into account; return how many do not break the floor.

        Where what is under way may yet leave room, lanes are woken when it has settled; where
        nothing is, the run stops.
        """
        fits = self._fits(worst_micro)
        bound = number if fits is None else min(number, fits)
        if bound == 0:
            self._short = True
            if self.bound_micro == 0:
                self.stops.stop(StopReason.BALANCE)
        self.bound_micro += bound * worst_micro
        return bound

    def _fits(self, worst_micro: int) -> int | None:
        """Return how many calls leave the balance above its floor; None where nothing limits it."""
        if self.floor_micro is None:
            return None
        left = self.left()
        if left is None:  # one at a time until an answer bears a balance
            return None if self._answers >= BLIND_ANSWERS else int(self.bound_micro == 0)
        return max(0, left) // max(1, worst_micro)

    def unbind(self, worst_micro: int, number: int = 1) -> None:
        """Give the worst cost of calls back once they have settled, or were not made."""
        self.bound_micro -= number * worst_micro
        if self._short and number:
            self._short = False
            self.stops.wake()

    # --- prices ---

    def record_price(self, check: str, cost_micro: int | None, reserved_micro: int) -> None:
        """Take note of an answer's price, None where unknown; say so where it rose."""
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
        """Return the cost an answer names where that is too high to be a price; None where not."""
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
        """Say that a named cost is not believed; what no balance disproved may stop its check."""
        said = (
            f"a {check} call cost {naira_words(named_micro)} by its answer, and no more than "
            f"{naira_words(self.price_limits[check])} is believed to be a price"
        )
        if disproved:
            if check not in self.disproved:
                self.disproved.add(check)
                self.stops.notices.append(
                    f"{said}: the balance contradicts it, and the call counts at the price known "
                    "before"
                )
        elif not self.stops.evidence(check).knows(Objection.COST, subject):
            self.stops.notices.append(
                f"{said}: it counts in full until a balance contradicts it, and the check goes on "
                "one call at a time; if you have the service's invoice, enter what it says: "
                "nightscreen journal settle"
            )
            self.stops.record_objection(check, Objection.COST, subject)
