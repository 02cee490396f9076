"""Money: naira as `Decimal` in memory, whole micro-naira on disk, decimal text to people.

One naira is 1,000,000 micro-naira: an integer adds exactly in every database, and any price the
service may quote fits. No amount ever passes through a float.
"""

from __future__ import annotations

from decimal import ROUND_UP, Decimal, InvalidOperation

MICRO = 1_000_000
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
