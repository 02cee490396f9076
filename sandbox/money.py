"""Naira inside the sandbox: whole micro-naira, so that nothing is ever rounded.

Only conversions live here; who owes what is told by `sandbox.wallet`.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation, Overflow

MICROS = 1_000_000
_MOST_DIGITS = 27


def micros_of(value: object) -> int:
    """Read an amount in naira as whole micro-naira.

    Args:
        value: a whole number, a Decimal, or decimal text.

    Raises:
        ValueError: not an amount, or finer than a millionth of a naira.
    """
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        raise ValueError(f"{value!r} is not an amount in naira")  # noqa: TRY004 - one error for callers
    try:
        micros = Decimal(value).scaleb(6)
    except (InvalidOperation, Overflow) as fault:
        raise ValueError(f"{value!r} is not an amount in naira") from fault
    if not micros.is_finite() or micros.adjusted() > _MOST_DIGITS:
        raise ValueError(f"{value!r} is not an amount in naira")
    whole = int(micros)
    if whole != micros:
        raise ValueError(f"{value!r} is finer than a millionth of a naira")
    return whole


def naira_text(micros: int) -> str:
    """Write micro-naira as plain decimal text in naira, without needless zeros."""
    sign = "-" if micros < 0 else ""
    whole, part = divmod(abs(micros), MICROS)
    if part == 0:
        return f"{sign}{whole}"
    return f"{sign}{whole}.{part:06d}".rstrip("0")
