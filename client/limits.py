"""Time and room of each operation: defaults, and how settings name them.

What does not belong here: the cap that adapts while a run goes on (`client/limiter.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from schemas.checks import Operation
from schemas.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

N = TypeVar("N", int, float)

TIMEOUT_S: Mapping[Operation, float] = {
    Operation.BANK_ACCOUNT: 45.0,
    Operation.KARMA: 30.0,
    Operation.ECOSYSTEM: 30.0,
    Operation.SELFIE: 75.0,
    Operation.BVN_START: 75.0,
    Operation.BVN_FINISH: 75.0,
}
MAX_IN_FLIGHT: Mapping[Operation, int] = {
    Operation.BANK_ACCOUNT: 6,
    Operation.KARMA: 8,
    Operation.ECOSYSTEM: 8,
    Operation.SELFIE: 3,
    Operation.BVN_START: 2,
    Operation.BVN_FINISH: 2,
}
BVN_WORD = "bvn"
"""Settings name both BVN calls by one word."""


def timeouts_by_operation(
    given: Mapping[Operation, float] | Mapping[str, float] | None,
) -> dict[Operation, float]:
    """Return seconds for each operation, defaults where nothing is given.

    Raises:
        SettingsError: an unknown operation, or a number that is not above zero.
    """
    return _filled(TIMEOUT_S, given or {}, "TIMEOUT_S")


def in_flight_by_operation(
    given: Mapping[Operation, int] | Mapping[str, int] | int | None,
) -> dict[Operation, int]:
    """Return the most calls in flight of each operation, defaults where nothing is given.

    Raises:
        SettingsError: an unknown operation, or a number that is not above zero.
    """
    if isinstance(given, int):
        given = dict.fromkeys(Operation, given)
    return _filled(MAX_IN_FLIGHT, given or {}, "MAX_IN_FLIGHT")


def _filled(
    defaults: Mapping[Operation, N], given: Mapping[Operation, N] | Mapping[str, N], setting: str
) -> dict[Operation, N]:
    filled = dict(defaults)
    for word, value in given.items():
        if not value > 0:
            raise SettingsError(f"{setting} of {word} must be above zero")
        if word == BVN_WORD:
            filled[Operation.BVN_START] = filled[Operation.BVN_FINISH] = value
        elif word in tuple(Operation):
            filled[Operation(word)] = value
        else:
            known = ", ".join((*Operation, BVN_WORD))
            raise SettingsError(f"{setting} names no known operation; known are {known}")
    return filled
