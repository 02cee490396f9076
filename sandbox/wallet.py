"""The wallet that calls are paid from, and what they cost.

Money only: charging, topping up, draining, running dry, prices and their changes. Whether a call
is charged at all is decided in `sandbox.gate`. At any time
opening + topped up - drained - charged = balance.
"""

from __future__ import annotations

from typing import Final

from nightscreen.sandbox.manners import AGGREGATOR
from nightscreen.sandbox.money import MICROS

PRICES: Final = {
    "karma": 10 * MICROS,
    "ecosystem": 25 * MICROS,
    "bank_account": 10 * MICROS,
    "selfie": 30 * MICROS,
    "bvn_start": 0,
    "bvn_finish": 20 * MICROS,
    **dict.fromkeys(AGGREGATOR, 0),
}


class Wallet:
    """A balance in micro-naira that other consumers may draw on too.

    Attributes:
        balance: what is left now.
        previous: what was left before the last charge.
        calls: priced calls that came so far, charged or not.
        dry_at_call: number of the call that finds the wallet empty.
        drain_every: another consumer takes an amount each time so many calls have come.
    """

    __slots__ = (
        *("balance", "calls", "drain_every", "drained", "dry_at_call"),
        *("opening", "previous", "topped_up"),
    )

    def __init__(self, opening: int) -> None:
        self.opening = opening
        self.balance = opening
        self.previous = opening
        self.topped_up = 0
        self.drained = 0
        self.calls = 0
        self.dry_at_call: int | None = None
        self.drain_every: tuple[int, int] | None = None

    def count_call(self) -> None:
        """Count one priced call; what is due at this call happens before it is charged."""
        self.calls += 1
        if self.calls == self.dry_at_call:
            self.drain(self.balance)
        if self.drain_every and self.calls % self.drain_every[0] == 0:
            self.drain(self.drain_every[1])

    def charge(self, amount: int) -> None:
        """Take the price of one call.

        Raises:
            ValueError: the wallet does not hold so much.
        """
        if amount > self.balance:
            raise ValueError("the wallet is too low")
        self.previous = self.balance
        self.balance -= amount

    def drain(self, amount: int) -> None:
        """Let another consumer take an amount, or what there is if that is less."""
        taken = min(amount, self.balance)
        self.balance -= taken
        self.drained += taken

    def top_up(self, amount: int) -> None:
        """Pay money in."""
        self.balance += amount
        self.topped_up += amount

    def set_balance(self, amount: int) -> None:
        """Bring the balance to an amount; the difference counts as topped up or drained."""
        if amount >= self.balance:
            self.top_up(amount - self.balance)
        else:
            self.drain(self.balance - amount)


class PriceList:
    """What each operation costs, and the changes that are planned at a later call."""

    __slots__ = ("now", "planned")

    def __init__(self) -> None:
        self.now = dict(PRICES)
        self.planned: dict[str, list[tuple[int, int]]] = {}

    def plan(self, operation: str, at_call: int, price: int) -> None:
        """Let a price change when the given call of that operation comes."""
        self.planned.setdefault(operation, []).append((at_call, price))

    def price(self, operation: str, call: int) -> int:
        """Tell what a call costs, given its number among the calls of its operation."""
        if self.planned:
            due = self.planned.get(operation, [])
            while due and min(due)[0] <= call:
                first = min(due)
                due.remove(first)
                self.now[operation] = first[1]
        return self.now[operation]
