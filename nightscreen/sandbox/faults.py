"""What can go wrong on the way, when it does, and how long answers take.

The pipeline plays the faults; the table and the choice among them are here.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from nightscreen.sandbox.seeded_random import SeededRandom

if TYPE_CHECKING:
    from nightscreen.sandbox.test_identifiers import MagicPerson

ALL: Final = "all"


@dataclass(frozen=True, slots=True)
class Fault:
    """One way for a call to fail."""

    name: str  # its name on the control surface
    after: bool  # whether the call is worked out, and charged if it hits, before it fails
    status: int  # HTTP status sent, 0 where none is


FAULTS: Final = {
    fault.name: fault
    for fault in (
        Fault("slow", after=True, status=200),
        Fault("http_429", after=False, status=429),
        Fault("http_500", after=False, status=500),
        Fault("http_502", after=False, status=502),
        Fault("http_503", after=False, status=503),
        Fault("http_504", after=False, status=504),
        Fault("cut_before_charge", after=False, status=0),
        Fault("cut_after_charge", after=True, status=0),
        Fault("truncated", after=True, status=200),
        Fault("unreadable", after=True, status=200),
        Fault("no_data", after=False, status=200),
        Fault("timeout", after=True, status=0),
        Fault("timeout_before_charge", after=False, status=0),
        Fault("http_500_after_charge", after=True, status=500),
        Fault("http_502_after_charge", after=True, status=502),
        Fault("http_504_after_charge", after=True, status=504),
        Fault("mock_response", after=False, status=200),
        Fault("empty_object", after=False, status=200),
        Fault("denied", after=False, status=403),
        Fault("unpriced", after=False, status=500),
        Fault("low_wallet", after=False, status=402),
        Fault("foreign_404", after=False, status=404),
        Fault("redirect", after=False, status=302),
        Fault("huge", after=True, status=200),
        Fault("not_offered", after=False, status=500),
        Fault("mock_message", after=False, status=200),
    )
}


@dataclass(frozen=True, slots=True)
class Scripted:
    """A fault that is played at a given call, and the calls after it if more than one."""

    operation: str
    at_call: int
    calls: int
    fault: str


@dataclass(slots=True)
class FaultPlan:
    """The faults in force."""

    seed: int  # chooses which calls fail, together with operation, identity and attempt
    # by operation or `all`, the share of calls that meet each fault
    rates: dict[str, dict[str, float]] = field(default_factory=dict)
    # faults at given calls, counted for each operation (or all) since the last reset
    script: list[Scripted] = field(default_factory=list)
    retry_after_s: float = 1.0  # wait named by 429 answers

    def choose(
        self, operation: str, identity: str, attempt: int, numbers: tuple[int, int]
    ) -> Fault | None:
        """Choose the fault of a call, the same for the same call whatever else is going on."""
        for step in self.script:
            number = numbers[1] if step.operation == ALL else numbers[0]
            if step.operation in (ALL, operation) and 0 <= number - step.at_call < step.calls:
                return FAULTS[step.fault]
        rates = self.rates.get(operation) or self.rates.get(ALL)
        if not rates:
            return None
        share = SeededRandom("fault", str(self.seed), operation, identity, str(attempt)).share()
        for name, rate in rates.items():
            share -= rate
            if share < 0:
                return FAULTS[name]
        return None

    def as_json(self) -> dict[str, object]:
        """Return the plan as the control surface shows it."""
        return {
            "seed": self.seed,
            "rates": self.rates,
            "retry_after_s": self.retry_after_s,
            "script": [
                {
                    "operation": step.operation,
                    "at_call": step.at_call,
                    "calls": step.calls,
                    "fault": step.fault,
                }
                for step in self.script
            ],
        }


def of_magic(row: MagicPerson | None, operation: str) -> Fault | None:
    """Return which fault a magic identifier asks for, at every attempt of an operation."""
    if row is None or not row.fault or row.only not in ("", operation):
        return None
    return FAULTS[row.fault]


def of_trouble(trouble: tuple[str, int] | None, attempt: int) -> Fault | None:
    """Which fault a customer in trouble meets at this attempt; 0 attempts are all of them."""
    if trouble is None or 0 < trouble[1] < attempt:
        return None
    return FAULTS[trouble[0]]


KINDS: Final = ("none", "fixed", "lognormal")
_P99: Final = 2.326347874
"""How many standard deviations above the median the 99th percentile lies."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A distribution of waiting times."""

    kind: str  # `none`, `fixed` or `lognormal`
    middle_s: float = 0.0  # the fixed time, or the median
    spread: float = 0.0  # the standard deviation of the logarithm; 0 where the time is fixed

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
        """SeededRandom how long the next answer takes."""
        profile = self.by_operation.get(operation, self.default)
        if profile.spread == 0.0:
            return profile.middle_s
        return profile.middle_s * math.exp(profile.spread * self._random.gauss(0.0, 1.0))

    def as_json(self) -> dict[str, object]:
        """Return the profiles in force."""
        exceptions = {name: rates.as_json() for name, rates in self.by_operation.items()}
        return {**self.default.as_json(), "by_operation": exceptions}
