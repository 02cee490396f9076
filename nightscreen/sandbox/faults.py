"""Settings of the sandbox: the service's habits, faults, and how long answers take.

Every habit that the specification leaves open is a switch; the defaults were observed at a similar
service. Each can be read and set while the sandbox runs, and operations follow it. The pipeline
plays the faults.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, NamedTuple, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from nightscreen.sandbox.fiction import SERVICE, SeededRandom
from nightscreen.sandbox.ledger import PRICES

if TYPE_CHECKING:
    from collections.abc import Iterable

OPERATION_NAMES: Final = (*PRICES, "loan_products", "loan_start", "loan_view")
"""Every operation that can be named in faults and latencies."""

Seconds = Annotated[float, Field(ge=0, le=86_400)]


class Setting(BaseModel):
    """Base of settings: an unknown field is refused."""

    model_config = ConfigDict(extra="forbid")


class BehaviourFlags(Setting):
    """How the sandbox behaves where the specification is silent; see `docs/sandbox.md`."""

    model_config = ConfigDict(strict=True, frozen=True)

    missing_key_text: Literal["invalid", "verify"] = "invalid"
    karma_miss: Literal["404_success", "404_error"] = "404_success"
    unknown_route: Literal["recorded", "short"] = "recorded"
    masked_bvn: bool = True
    balance_lags: bool = False
    wrong_contact: Literal["400_text", "400_data"] = "400_text"
    bvn_finish: Literal["details", "accounts", "together"] = "details"
    distributor: bool = True
    mock_cost: bool = False
    slow_s: Seconds = 2.0
    silence_s: Seconds = 30.0


# --- faults ---

ALL: Final = "all"


class Fault(NamedTuple):
    """One way for a call to fail; what happens then stands in `docs/sandbox.md`."""

    name: str  # its name on the control surface
    status: int  # HTTP status sent, 0 for none
    after: bool = False  # whether the call is processed, and charged if it hits, before it fails
    test_mode: str = ""  # the test mode in which it answers
    failure: str = ""  # message of a failure that is answered as JSON
    refusal: str = ""  # message where the account is refused
    null_data: bool = False  # whether the refusal has `data`, which is null


FAULTS: Final = {name: Fault(name, **row) for name, row in SERVICE["faults"].items()}


def one_of(known: Iterable[str], what: str) -> AfterValidator:
    """Accept only known words."""
    names = frozenset(known)

    def check(value: str) -> str:
        if value not in names:
            raise ValueError(f"this is no {what}; there are {', '.join(sorted(names))}")
        return value

    return AfterValidator(check)


OperationName = Annotated[str, one_of((*OPERATION_NAMES, ALL), "operation")]
FaultName = Annotated[str, one_of(FAULTS, "fault")]
Count = Annotated[int, Field(ge=1, strict=True)]
Milliseconds = Annotated[float, Field(ge=0, le=1_000_000_000, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Scripted:
    """A fault that is played at a given call, and the calls after it if more than one."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    fault: FaultName
    at_call: Count
    calls: Count = 1
    operation: OperationName = ALL


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
        """Choose the fault of a call; the same call always gets the same fault."""
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


# --- latencies ---

_P99: Final = 2.326347874  # how many standard deviations above the median the 99th percentile lies


class Profile(Setting):
    """A distribution of waiting times, as the control surface takes it."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["none", "fixed", "lognormal"]
    ms: Milliseconds = 0.0  # of a fixed one
    # half of the answers take less than the first, one in a hundred more than the second
    median_ms: Milliseconds = 0.0
    p99_ms: Milliseconds = 0.0

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.kind == "fixed" and "ms" not in self.model_fields_set:
            raise ValueError("fixed latency needs ms")
        if self.kind == "lognormal" and not 0 < self.median_ms <= self.p99_ms:
            raise ValueError("lognormal latency needs 0 < median_ms <= p99_ms")
        return self

    def as_json(self) -> dict[str, object]:
        """Return it as it was set."""
        return self.model_dump(exclude_unset=True, exclude={"operation"})


class Latency:
    """The waiting times in force: one profile for all operations, and exceptions."""

    def __init__(self, default: Profile, seed: int) -> None:
        self.default = default
        self.by_operation: dict[str, Profile] = {}
        self._random = random.Random(seed)

    def seconds(self, operation: str) -> float:
        """Draw how long the next answer takes."""
        profile = self.by_operation.get(operation, self.default)
        if profile.kind != "lognormal":
            return profile.ms / 1000
        spread = math.log(profile.p99_ms / profile.median_ms) / _P99
        return profile.median_ms / 1000 * math.exp(spread * self._random.gauss(0.0, 1.0))

    def as_json(self) -> dict[str, object]:
        """Return the profiles in force."""
        exceptions = {name: profile.as_json() for name, profile in self.by_operation.items()}
        return {**self.default.as_json(), "by_operation": exceptions}
