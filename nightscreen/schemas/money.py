"""Money: naira as `Decimal` in memory, whole micro-naira on disk, decimal text to people.

One naira is 1,000,000 micro-naira: an integer adds exactly in every database, and any price the
service may quote fits. No amount ever passes through a float. What a call may cost at most, and
which cost is believed to be a price, is here too; the price list is read in `client/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_UP, Decimal, InvalidOperation

from nightscreen.schemas.clock import DAY_MICROS

MICRO = 1_000_000  # in a naira: costs are whole numbers of them, so that sums are exact
MOST_TYPED = 10**12  # nobody types more naira than that and means it


def to_micro(naira: Decimal) -> int:
    """Return whole micro-naira, rounded away from zero so that a cost is never understated."""
    return int((naira * MICRO).to_integral_value(rounding=ROUND_UP))


def typed_micro(text: str) -> int:
    """Return an amount of naira that a person typed, in micro-naira.

    Raises:
        ValueError: it is no amount, or has more than six places.
    """
    try:
        naira = Decimal(text.replace(",", "").replace("₦", "").strip())
    except InvalidOperation:
        raise ValueError(text) from None
    if not naira.is_finite() or not 0 <= naira <= MOST_TYPED or naira != round(naira, 6):
        raise ValueError(text)
    return to_micro(naira)


def from_micro(micro: int) -> Decimal:
    """Return naira as an exact decimal with six places."""
    return Decimal(micro).scaleb(-6)


def naira_text(micro: int | None) -> str | None:
    """Return decimal text with two places or as many as are needed; None stays None."""
    if micro is None:
        return None
    sign = "-" if micro < 0 else ""
    whole, rest = divmod(abs(micro), MICRO)
    return f"{sign}{whole}.{f'{rest:06d}'.rstrip('0').ljust(2, '0')}"


def naira_words(micro: int | None) -> str:
    """Return an amount for people, such as `₦1,234.50`; None is shown as a dash."""
    return "-" if micro is None else f"₦{from_micro(micro):,.2f}"


ANOMALY_TIMES = 20  # a choice, told in docs/journal.md; kobo taken for naira are a hundred times
LEAST_LIMIT_MICRO = 100 * MICRO  # for operations that are listed at nothing or next to it

MOST_COST_MICRO = 10_000_000 * MICRO
"""A cost beyond this is no amount but a fault, and not known to us. The counters of the journal are
64-bit integers: 900,000 calls of one month at this cost are exact, and a check stops after two."""

RECENT_MICROS = 8 * DAY_MICROS
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
