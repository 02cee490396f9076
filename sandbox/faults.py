"""Faults: what can go wrong on the way, and when it does.

The table of faults and the choice among them live here; `sandbox.gate` plays them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from nightscreen.sandbox.draw import Draw

if TYPE_CHECKING:
    from nightscreen.sandbox.magic import Magic

ALL: Final = "all"


@dataclass(frozen=True, slots=True)
class Fault:
    """One way for a call to fail.

    Attributes:
        name: its name on the control surface.
        after: whether the call is worked out, and charged if it hits, before it fails.
        status: HTTP status sent, 0 where none is.
    """

    name: str
    after: bool
    status: int


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
    """The faults in force.

    Attributes:
        seed: chooses which calls fail, together with operation, identity and attempt.
        rates: by operation or `all`, the share of calls that meet each fault.
        script: faults at given calls, counted for each operation (or all) since the last reset.
        retry_after_s: wait named by 429 answers; None leaves it to the manners.
    """

    seed: int
    rates: dict[str, dict[str, float]] = field(default_factory=dict)
    script: list[Scripted] = field(default_factory=list)
    retry_after_s: float | None = None

    def choose(
        self, operation: str, identity: str, attempt: int, numbers: tuple[int, int]
    ) -> Fault | None:
        """Choose the fault of a call, the same for the same call whatever else is going on.

        Args:
            operation: name of the operation.
            identity: what is looked up.
            attempt: how often it was looked up so far, this call included.
            numbers: of this call among the calls of its operation, and among all.
        """
        for one in self.script:
            number = numbers[1] if one.operation == ALL else numbers[0]
            if one.operation in (ALL, operation) and 0 <= number - one.at_call < one.calls:
                return FAULTS[one.fault]
        rates = self.rates.get(operation) or self.rates.get(ALL)
        if not rates:
            return None
        share = Draw("fault", str(self.seed), operation, identity, str(attempt)).share()
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
                    "operation": one.operation,
                    "at_call": one.at_call,
                    "calls": one.calls,
                    "fault": one.fault,
                }
                for one in self.script
            ],
        }


def of_magic(row: Magic | None, operation: str, attempt: int) -> Fault | None:
    """Tell which fault a magic identifier asks for at this attempt of an operation."""
    if row is None or not row.fault or (row.once and attempt > 1):
        return None
    if row.only not in ("", operation):
        return None
    return FAULTS[row.fault]


def of_trouble(trouble: tuple[str, int] | None, attempt: int) -> Fault | None:
    """Tell which fault a customer in trouble meets at this attempt; 0 attempts are all of them."""
    if trouble is None or 0 < trouble[1] < attempt:
        return None
    return FAULTS[trouble[0]]
