"""Prices: what a call may cost at most, and which cost is believed to be a price.

Whole micro-naira. The price list is read in `client/`, what was charged is in the journal.
"""

from __future__ import annotations

from dataclasses import dataclass

from nightscreen.schemas.money import MICRO

ANOMALY_TIMES = 20
LEAST_LIMIT_MICRO = 100 * MICRO  # for operations that are listed at nothing or next to it

MOST_COST_MICRO = 10_000_000 * MICRO
"""A cost beyond this is no amount but a fault, and not known to us. The counters of the journal are
64-bit integers: 900,000 calls of one month at this cost are exact, and a check stops after two."""

RECENT_MICROS = 8 * 24 * 3600 * MICRO
"""For how long the highest price counts after it was last charged: until a weekly run is over."""


def price_limit(listed_micro: int) -> int:
    """Return the highest cost that is believed to be a price, given the price list's."""
    return max(ANOMALY_TIMES * listed_micro, LEAST_LIMIT_MICRO)


@dataclass(frozen=True, slots=True)
class SeenPrice:
    """The charges for an operation that the journal has seen."""

    latest_micro: int  # the latest price
    highest_micro: int  # the highest price of late
    seen_at: int  # instant at which the highest was last charged, microseconds

    def believed(self, limit_micro: int | None, now: int) -> list[int]:
        """Return the prices that count: charged of late and not beyond the limit, latest first."""
        recent = now - self.seen_at < RECENT_MICROS
        found = (self.latest_micro, self.highest_micro) if recent else (self.latest_micro,)
        return [price for price in found if limit_micro is None or price <= limit_micro]


def max_cost(known_micro: int, seen: SeenPrice | None, *, limit_micro: int | None, now: int) -> int:
    """Return the most a call may cost: what quotes, caps and reservations reckon with.

    Args:
        known_micro: the list price, or what is known beyond it.
        seen: what the journal has seen charged.
        limit_micro: the highest cost that is believed; None where all are.
        now: the present instant.
    """
    prices = [] if seen is None else seen.believed(limit_micro, now)
    return max([known_micro, *prices])
