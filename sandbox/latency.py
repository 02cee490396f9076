"""How long the sandbox takes to answer."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Final

KINDS: Final = ("none", "fixed", "lognormal")
_P99: Final = 2.326347874
"""How many standard deviations above the median the 99th percentile lies."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A distribution of waiting times.

    Attributes:
        kind: `none`, `fixed` or `lognormal`.
        middle_s: the fixed time, or the median.
        spread: the standard deviation of the logarithm; 0 where the time is fixed.
    """

    kind: str
    middle_s: float = 0.0
    spread: float = 0.0

    def as_json(self) -> dict[str, object]:
        """Return the form in which the control surface takes it."""
        if self.kind == "none":
            return {"kind": "none"}
        middle = round(self.middle_s * 1000, 3)
        if self.kind == "fixed":
            return {"kind": "fixed", "ms": middle}
        p99 = round(middle * math.exp(self.spread * _P99), 3)
        return {"kind": "lognormal", "median_ms": middle, "p99_ms": p99}


NO_WAIT: Final = Profile("none")


def fixed(ms: float) -> Profile:
    """Make every answer take so many milliseconds."""
    return Profile("fixed", ms / 1000)


def lognormal(median_ms: float, p99_ms: float) -> Profile:
    """Make answers take half the time below a median, and one in a hundred above a limit.

    Raises:
        ValueError: the limit is below the median, or the median is not positive.
    """
    if median_ms <= 0 or p99_ms < median_ms:
        raise ValueError("lognormal latency needs 0 < median_ms <= p99_ms")
    return Profile("lognormal", median_ms / 1000, math.log(p99_ms / median_ms) / _P99)


class Latency:
    """The waiting times in force, one profile for all operations and exceptions from it."""

    __slots__ = ("_random", "by_operation", "default")

    def __init__(self, default: Profile, seed: int) -> None:
        self.default = default
        self.by_operation: dict[str, Profile] = {}
        self._random = random.Random(seed)

    def seconds(self, operation: str) -> float:
        """Draw how long the next answer takes."""
        profile = self.by_operation.get(operation, self.default)
        if profile.spread == 0.0:
            return profile.middle_s
        return profile.middle_s * math.exp(profile.spread * self._random.gauss(0.0, 1.0))

    def as_json(self) -> dict[str, object]:
        """Return the profiles in force."""
        exceptions = {name: one.as_json() for name, one in self.by_operation.items()}
        return {**self.default.as_json(), "by_operation": exceptions}
