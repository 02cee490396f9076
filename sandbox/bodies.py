"""Reading of JSON bodies of the control surface: each value as it must be, or a reason why not.

Values only; which request has which fields is decided in `sandbox.control` and its parts. Every
fault is a ValueError, whatever is wrong, because each is answered alike.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

_MOST: Final = 1_000_000_000


def whole(value: object, name: str, least: int = 0) -> int:
    """Take a whole number from `least` on."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be a whole number from {least}")
    return value


def number(value: object, name: str) -> float:
    """Take a number that is not below 0."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError(f"{name} must be a number")  # noqa: TRY004 - one error for callers
    if not 0 <= value <= _MOST:
        raise ValueError(f"{name} must lie between 0 and {_MOST}")
    return float(value)


def text(value: object, name: str) -> str:
    """Take a text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} must be a text")
    return value


def texts(value: object, name: str) -> list[str]:
    """Take a list of texts."""
    if not isinstance(value, list):
        raise ValueError(f"{name} must be a list of texts")  # noqa: TRY004 - one error for callers
    return [text(one, name) for one in value]


def object_of(value: object, name: str) -> dict[str, object]:
    """Take an object."""
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be an object")  # noqa: TRY004 - one error for callers
    return value


def only(body: dict[str, object], *names: str) -> None:
    """Refuse a body with fields that nobody knows."""
    strange = sorted(set(body) - set(names))
    if strange:
        raise ValueError(f"unknown: {', '.join(strange)}; known: {', '.join(names)}")
