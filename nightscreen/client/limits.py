"""Time and room of each operation: defaults, and how settings name them.

What does not belong here: the cap that adapts while a run goes on (`client/limiter.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from nightscreen.schemas.checks import FAMILIES, Operation
from nightscreen.schemas.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

N = TypeVar("N", bound=float)

_TIMEOUT_S: Mapping[str, float] = {
    "bank_account": 45.0,
    "karma": 30.0,
    "ecosystem": 30.0,
    "selfie": 75.0,
    "bvn": 75.0,
    "aggregator": 30.0,
    "loans": 30.0,
}
_MAX_IN_FLIGHT: Mapping[str, int] = {
    "bank_account": 6,
    "karma": 8,
    "ecosystem": 8,
    "selfie": 3,
    "bvn": 2,
    "aggregator": 8,
    "loans": 4,
}


def timeouts_by_operation(
    given: Mapping[Operation, float] | Mapping[str, float] | None,
) -> dict[Operation, float]:
    """Return seconds for each operation, defaults where nothing is given.

    Raises:
        SettingsError: an unknown operation, or a number that is not above zero.
    """
    return _filled(_TIMEOUT_S, given or {}, "TIMEOUT_S")


def in_flight_by_operation(
    given: Mapping[Operation, int] | Mapping[str, int] | int | None,
) -> dict[Operation, int]:
    """Return the most calls in flight of each operation, defaults where nothing is given.

    Raises:
        SettingsError: an unknown operation, or a number that is not above zero.
    """
    if isinstance(given, int):
        given = dict.fromkeys(Operation, given)
    return _filled(_MAX_IN_FLIGHT, given or {}, "MAX_IN_FLIGHT")


def connections_for(in_flight: Mapping[Operation, int]) -> int:
    """Return how many connections serve all operations.

    The operations of a family share their connections.
    """
    families = FAMILIES.values()
    shared = sum(max(in_flight[operation] for operation in family) for family in families)
    of_families = {operation for family in families for operation in family}
    return shared + sum(cap for operation, cap in in_flight.items() if operation not in of_families)


def _filled(
    defaults: Mapping[str, N], given: Mapping[Operation, N] | Mapping[str, N], setting: str
) -> dict[Operation, N]:
    filled: dict[Operation, N] = {}
    for word, value in (*defaults.items(), *given.items()):
        if not value > 0:
            raise SettingsError(f"{setting} of {word} must be above zero")
        operations = FAMILIES.get(word) or tuple(known for known in Operation if known == word)
        if not operations:
            known = ", ".join((*Operation, *FAMILIES))
            raise SettingsError(f"{setting} names no known operation; known are {known}")
        filled |= dict.fromkeys(operations, value)
    return filled
