"""Money: naira as `Decimal` in memory, whole micro-naira on disk, decimal text for people.

One naira is 1,000,000 micro-naira: integers add exactly in every database, and any price of the
service fits. No amount passes through a float. The maximum cost of a call, and the highest cost
that is believed, are computed here; `client/` reads the price list.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_UP, Decimal, InvalidOperation

from nightscreen.schemas.clock import DAY_MICROS

MICRO = 1_000_000  # micro-naira in a naira
MOST_TYPED = 10**12  # naira; a larger typed amount is a mistake


def to_micro(naira: Decimal) -> int:
    """Return whole micro-naira, rounded away from zero so that a cost is never understated."""
    return int((naira * MICRO).to_integral_value(rounding=ROUND_UP))


def typed_micro(text: str) -> int:
    """Return a typed amount of naira in micro-naira.

    Raises:
        ValueError: it is not an amount, or has more than six decimals.
    """
    try:
        naira = Decimal(text.replace(",", "").replace("₦", "").strip())
    except InvalidOperation:
        raise ValueError(text) from None
    if not naira.is_finite() or not 0 <= naira <= MOST_TYPED or naira != round(naira, 6):
        raise ValueError(text)
    return to_micro(naira)


def from_micro(micro: int) -> Decimal:
    """Return naira as an exact decimal with six decimals."""
    return Decimal(micro).scaleb(-6)


def naira_text(micro: int | None) -> str | None:
    """Return decimal text with at least two decimals, more if needed; None stays None."""
    if micro is None:
        return None
    sign = "-" if micro < 0 else ""
    whole, rest = divmod(abs(micro), MICRO)
    return f"{sign}{whole}.{f'{rest:06d}'.rstrip('0').ljust(2, '0')}"


def naira_words(micro: int | None) -> str:
    """Return an amount for people, such as `₦1,234.50`; None is shown as a dash."""
    return "-" if micro is None else f"₦{from_micro(micro):,.2f}"


ANOMALY_TIMES = 20  # a choice, see docs/journal.md; kobo taken for naira are a hundred times
LEAST_LIMIT_MICRO = 100 * MICRO  # for operations with a list price of zero or nearly zero

MOST_COST_MICRO = 10_000_000 * MICRO
"""A cost beyond this is treated as not known. The journal's counters are 64-bit integers: 900,000
calls in a month at this cost are exact, and a check stops after two."""

RECENT_MICROS = 8 * DAY_MICROS
"""How long the highest price counts after it was last charged: until a weekly run is over."""


def price_limit(listed_micro: int) -> int:
    """Return the highest cost that is believed to be a price, from the list price."""
    return max(ANOMALY_TIMES * listed_micro, LEAST_LIMIT_MICRO)


@dataclass(frozen=True, slots=True)
class SeenPrice:
    """The charges for an operation in the journal."""

    latest_micro: int  # the latest price
    highest_micro: int  # the highest recent price
    seen_at: int  # instant at which the highest was last charged, microseconds

    def believed(self, limit_micro: int | None, now: int) -> list[int]:
        """Return the latest price and a recent highest one, both only within the limit."""
        is_recent = now - self.seen_at < RECENT_MICROS
        prices = (self.latest_micro, self.highest_micro) if is_recent else (self.latest_micro,)
        return [price for price in prices if limit_micro is None or price <= limit_micro]


def max_cost(known_micro: int, seen: SeenPrice | None, *, limit_micro: int | None, now: int) -> int:
    """Return the most a call may cost; quotes, caps and reservations use it.

    Args:
        known_micro: the list price, or a higher known price.
        seen: the charges in the journal.
        limit_micro: the highest cost that is believed; None for no limit.
        now: the present instant.
    """
    prices = [] if seen is None else seen.believed(limit_micro, now)
    return max([known_micro, *prices])
