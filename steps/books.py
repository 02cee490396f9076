"""Books: a balance opened and closed exactly, and what was lost between the two explained.

Works on calls as the journal has them; a pure reading, nothing is asked here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

IN_DOUBT = "in_doubt"
_MOST_SUMS = 2_000_000


@dataclass(frozen=True, slots=True)
class BookedCall:
    """What the books need to know of a call; instants in microseconds, money in micro-naira."""

    sent_at: int
    settled_at: int
    state: str
    reserved_micro: int
    cost_micro: int | None
    balance_micro: int | None


@dataclass(frozen=True, slots=True)
class Balance:
    """The balance over a run, in micro-naira; all None where no answer bore one."""

    opening_micro: int | None
    closing_micro: int | None
    lowest_micro: int | None
    explained_in_doubt_micro: int
    drift_micro: int
    exact: bool


@dataclass(slots=True)
class Books:
    """Takes a run's calls in the order of their intents and balances them at the end.

    The opening is exact where the first call that bore a balance was alone on the wire; the closing
    where the last one was. What was in doubt before the opening lies outside the books.
    """

    _opening: BookedCall | None = None
    _opened_alone: bool = True
    _last: BookedCall | None = None
    _others_settled: int = 0
    _highest: int | None = None
    _lowest: int | None = None
    _cost: int = 0
    _settled: int = 0
    _doubts: Counter[int] = field(default_factory=Counter)

    def add(self, calls: Iterable[BookedCall]) -> None:
        """Enter calls in the order of their intents."""
        for call in calls:
            self._enter(call)

    def _enter(self, call: BookedCall) -> None:
        self._cost += call.cost_micro or 0
        self._enter_opening(call)
        if self._last is None or call.sent_at >= self._last.sent_at:
            self._last, self._others_settled = call, self._settled
        else:
            self._others_settled = max(self._others_settled, call.settled_at)
        self._settled = max(self._settled, call.settled_at)
        if call.balance_micro is not None:
            before = call.balance_micro + (call.cost_micro or 0)
            self._highest = before if self._highest is None else max(self._highest, before)
            lowest = call.balance_micro
            self._lowest = lowest if self._lowest is None else min(self._lowest, lowest)

    def _enter_opening(self, call: BookedCall) -> None:
        if self._opening is None:
            self._opened_alone = self._opened_alone and self._settled <= call.sent_at
            if call.balance_micro is not None:
                self._opening = call
            elif not self._opened_alone and call.state == IN_DOUBT:
                self._doubts[call.reserved_micro] += 1
            return
        if call.sent_at < self._opening.settled_at:
            self._opened_alone = False
        if call.state == IN_DOUBT:
            self._doubts[call.reserved_micro] += 1

    def balance(self) -> Balance:
        """Return opening, closing and what lies between."""
        first, last = self._opening, self._last
        if first is None or last is None or self._highest is None or self._lowest is None:
            return Balance(None, None, None, 0, 0, exact=False)
        opening, closing = self._highest, self._lowest
        if self._opened_alone and first.balance_micro is not None:
            opening = first.balance_micro + (first.cost_micro or 0)
        closed_alone = last.balance_micro is not None and self._others_settled <= last.sent_at
        if closed_alone and last.balance_micro is not None:
            closing = last.balance_micro
        lost = opening - closing - self._cost
        explained = explain(lost, self._doubts)
        exact = self._opened_alone and closed_alone
        return Balance(opening, closing, self._lowest, explained, lost - explained, exact)


def explain(lost_micro: int, doubts: Counter[int]) -> int:
    """Return the most of a loss that calls in doubt can account for, each charged wholly or not.

    Args:
        lost_micro: what the balance lost beyond known costs; a gain explains nothing.
        doubts: how many calls in doubt there are of each worst cost.
    """
    if lost_micro <= 0:
        return 0
    reachable = {0}
    for cost, number in sorted(doubts.items(), reverse=True):
        if cost <= 0:
            continue
        most = min(number, lost_micro // cost)
        grown = {base + cost * times for base in reachable for times in range(most + 1)}
        reachable = {each for each in grown if each <= lost_micro}
        if len(reachable) > _MOST_SUMS:
            break
    return max(reachable)
