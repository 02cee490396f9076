"""What can go wrong on the way, when it does, and how long answers take.

The pipeline plays the faults; the table and the choice among them are here.
"""

from __future__ import annotations

import math
import random
from dataclasses import asdict, dataclass, field
from typing import Final, NamedTuple

from nightscreen.sandbox.seeded_random import SeededRandom

ALL: Final = "all"


class Fault(NamedTuple):
    """One way for a call to fail."""

    name: str  # its name on the control surface
    after: bool  # whether the call is worked out, and charged if it hits, before it fails
    status: int  # HTTP status sent, 0 where none is
    meaning: str  # what happens, for people


_BEFORE, _AFTER = False, True
FAULTS: Final = {
    fault.name: fault
    for fault in (
        Fault("slow", _AFTER, 200, "the right answer, seconds late"),
        Fault("http_429", _BEFORE, 429, "429 with Retry-After, not charged"),
        Fault("http_500", _BEFORE, 500, "500 as JSON, not charged"),
        Fault("http_502", _BEFORE, 502, "502 as an HTML page, not charged"),
        Fault("http_503", _BEFORE, 503, "503 as an HTML page, not charged"),
        Fault("http_504", _BEFORE, 504, "504 as plain text, not charged"),
        Fault("cut_before_charge", _BEFORE, 0, "the connection is cut, nothing sent, not charged"),
        Fault("cut_after_charge", _AFTER, 0, "the connection is cut, nothing sent, charged"),
        Fault(
            *("truncated", _AFTER, 200),
            "charged; the body stops in the middle and the connection is cut",
        ),
        Fault("unreadable", _AFTER, 200, "charged; status 200 with a body that is not JSON"),
        Fault("no_data", _BEFORE, 200, "status 200, an envelope without data, not charged"),
        Fault("timeout", _AFTER, 0, "charged, then silence until the connection is cut"),
        Fault(
            *("timeout_before_charge", _BEFORE, 0),
            "silence until the connection is cut, not charged",
        ),
        Fault("http_500_after_charge", _AFTER, 500, "charged, then 500 as JSON"),
        Fault("http_502_after_charge", _AFTER, 502, "charged, then 502 as an HTML page"),
        Fault("http_504_after_charge", _AFTER, 504, "charged, then 504 as plain text"),
        Fault(
            *("mock_response", _BEFORE, 200),
            "a test-mode answer: the sample record with mock-response, not charged",
        ),
        Fault("empty_object", _BEFORE, 200, "a test-mode answer: 200 with {}, not charged"),
        Fault("denied", _BEFORE, 403, "403, this key has no right to the operation"),
        Fault("unpriced", _BEFORE, 500, "500, the operation has no price for this account"),
        Fault("low_wallet", _BEFORE, 402, "402, the wallet is too low, whatever it holds"),
        Fault("foreign_404", _BEFORE, 404, "404 as an HTML page, not one of the service's own"),
        Fault("redirect", _BEFORE, 302, "302 to another address"),
        Fault("huge", _AFTER, 200, "charged; a valid answer of several megabytes"),
        Fault("not_offered", _BEFORE, 500, "500, the operation is not offered to this account"),
        Fault(
            *("mock_message", _BEFORE, 200),
            "a test-mode answer: the sample record, its message says so, not charged",
        ),
    )
}
"""Every fault, in the order of its row among the test identifiers."""


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
        """Choose the fault of a call, the same for the same call whatever else is going on.

        Args:
            operation: what is called.
            identity: whom it asks about.
            attempt: how often the same was asked, this call included.
            numbers: of the call among those of its operation, and among all.
        """
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
        return asdict(self)


_P99: Final = 2.326347874  # how many standard deviations above the median the 99th percentile lies


@dataclass(frozen=True, slots=True)
class Profile:
    """A distribution of waiting times."""

    kind: str  # `none`, `fixed` or `lognormal`
    middle_s: float = 0.0  # the fixed time, or the median
    spread: float = 0.0  # the standard deviation of the logarithm; 0 where the time is fixed

    def as_json(self) -> dict[str, object]:
        """Return the form in which the control surface takes it."""
        middle = round(self.middle_s * 1000, 3)
        p99 = round(middle * math.exp(self.spread * _P99), 3)
        shown: dict[str, dict[str, object]] = {
            "fixed": {"ms": middle},
            "lognormal": {"median_ms": middle, "p99_ms": p99},
        }
        return {"kind": self.kind, **shown.get(self.kind, {})}


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
        exceptions = {name: profile.as_json() for name, profile in self.by_operation.items()}
        return {**self.default.as_json(), "by_operation": exceptions}
