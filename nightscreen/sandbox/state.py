"""Everything the sandbox remembers while it runs: one object, reset as a whole to a scenario."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import Final

from nightscreen.sandbox.behaviour_flags import BehaviourFlags
from nightscreen.sandbox.faults import ALL, FaultPlan, Latency, Profile, fixed, lognormal
from nightscreen.sandbox.grants import Client, Grants
from nightscreen.sandbox.ledger import Ledger, PriceList, Wallet, micros_of, naira_text
from nightscreen.sandbox.loan_book import LoanBook
from nightscreen.sandbox.otp import OtpOutbox
from nightscreen.sandbox.planted import Planted
from nightscreen.sandbox.transactions import LinkedAccounts

FLAKY_RATES: Final = dict.fromkeys(
    (
        *("http_429", "http_500", "http_502", "http_503", "http_504"),
        *("cut_before_charge", "cut_after_charge", "truncated", "unreadable", "timeout"),
    ),
    0.05,
)
_FIVE_MS: Final = fixed(5)
_USUAL: Final = BehaviourFlags()


@dataclass(frozen=True, slots=True)
class Scenario:
    """One mood."""

    name: str  # as on the command line
    latency: Profile = _FIVE_MS  # how long answers take
    rates: dict[str, float] = field(default_factory=dict)  # share of calls that meet each fault
    manners: BehaviourFlags = _USUAL  # habits that differ from the default ones
    dry_at_call: int | None = None  # the call that finds the wallet empty
    test_mode: str | None = None  # `mock-response`, `empty` or None


SCENARIOS: Final = {
    scenario.name: scenario
    for scenario in (
        Scenario("calm"),
        Scenario("flaky", rates=FLAKY_RATES, manners=BehaviourFlags(silence_s=2.0)),
        Scenario("slow", latency=lognormal(3000, 20_000)),
        Scenario("empty-wallet", dry_at_call=200),
        Scenario(
            "mixed-consents", manners=BehaviourFlags(otp_delivery="mixed", bvn_finish="mixed")
        ),
        Scenario("no-distributor", manners=BehaviourFlags(distributor=False)),
        Scenario("test-mode", test_mode="mock-response"),
    )
}
"""The moods, as `docs/sandbox.md` tells them."""

DEFAULT_KEY = "sandbox-key"
DEFAULT_BALANCE = "1000000"


@dataclass(frozen=True, slots=True)
class Opening:
    """The state a sandbox starts from and returns to at a reset."""

    scenario: str = "calm"  # a name in `sandbox.state`
    api_key: str = DEFAULT_KEY  # the only key that is right
    balance: str | None = None  # naira in the wallet, as decimal text; None takes the scenario's
    seed: int = 0  # chooses faults and latencies
    ledger_limit: int | None = None  # how many ledger entries are kept; None keeps all


@dataclass(frozen=True, slots=True)
class Capacity:
    """A hidden limit: calls above it are refused in the given way."""

    max_in_flight: int
    refusal: str


class Sandbox:
    """The state of one running sandbox."""

    manners: BehaviourFlags
    wallet: Wallet
    prices: PriceList
    ledger: Ledger
    latency: Latency
    faults: FaultPlan

    def __init__(self, opening: Opening) -> None:
        self.opening = opening
        self.authorization = f"Bearer {opening.api_key}".encode()
        self.in_flight: dict[str, int] = {ALL: 0}
        self.reset()

    def reset(self, scenario_name: str | None = None) -> None:
        """Go back to the beginning of a scenario: empty ledger, full wallet, no faults set."""
        self.scenario: Scenario = SCENARIOS[scenario_name or self.opening.scenario]
        scenario = self.scenario
        self.manners = scenario.manners
        self.wallet = Wallet(micros_of(self.opening.balance or DEFAULT_BALANCE))
        self.wallet.dry_at_call = scenario.dry_at_call
        self.prices = PriceList()
        self.ledger = Ledger(self.opening.ledger_limit)
        self.latency = Latency(scenario.latency, self.opening.seed)
        self.faults = FaultPlan(
            self.opening.seed, {ALL: dict(scenario.rates)} if scenario.rates else {}
        )
        self.capacity: dict[str, Capacity] = {}
        self.test_mode = scenario.test_mode
        self.day = 0
        self.attempts: dict[tuple[str, str], int] = {}
        self.calls: dict[str, int] = {ALL: 0}
        self.peak = dict(self.in_flight)
        self.otps = OtpOutbox()
        self.client = Client()
        self.grants = Grants()
        self.linked = LinkedAccounts()
        self.planted = Planted()
        self.loans = LoanBook()
        self.ahead_s = 0.0

    def now(self) -> float:
        """Return the sandbox's own time in seconds: it never goes back, and can be moved ahead."""
        return time.monotonic() + self.ahead_s

    def arrive(self, operation: str) -> int:
        """Count a call in; returns how many are in flight now, this one included."""
        flying, peak = self.in_flight, self.peak
        flying[operation] = in_flight = flying.get(operation, 0) + 1
        flying[ALL] = everything = flying[ALL] + 1
        if in_flight > peak.get(operation, 0):
            peak[operation] = in_flight
        if everything > peak.get(ALL, 0):
            peak[ALL] = everything
        return everything

    def leave(self, operation: str) -> None:
        """Count a call out."""
        self.in_flight[operation] -= 1
        self.in_flight[ALL] -= 1

    def count_call(self, operation: str, identity: str) -> tuple[int, tuple[int, int]]:
        """Count an authorised call; returns its attempt number and its two call numbers."""
        key = (operation, identity)
        attempt = self.attempts.get(key, 0) + 1
        self.attempts[key] = attempt
        number = self.calls.get(operation, 0) + 1
        self.calls[operation] = number
        self.calls[ALL] += 1
        return attempt, (number, self.calls[ALL])

    def over_capacity(self, operation: str) -> str:
        """Return the fault by which a call that just arrived breaks a hidden limit, or nothing."""
        for name in (operation, ALL):
            limit = self.capacity.get(name)
            if limit and self.in_flight[name] > limit.max_in_flight:
                return limit.refusal
        return ""

    def as_json(self) -> dict[str, object]:
        """Return all that can be set, as it is now."""
        return {
            "scenario": self.scenario.name,
            "seed": self.opening.seed,
            "test_mode": self.test_mode,
            "day": self.day,
            "ahead_s": self.ahead_s,
            "wallet": self.wallet.as_json(),
            "prices": {name: naira_text(price) for name, price in self.prices.now.items()},
            "latency": self.latency.as_json(),
            "faults": self.faults.as_json(),
            "manners": asdict(self.manners),
            "capacity": {name: asdict(limit) for name, limit in self.capacity.items()},
            "client": self.client.as_json(),
            "grants": len(self.grants),
            "calls": dict(self.calls),
            "in_flight": dict(self.in_flight),
            "ledger_entries": self.ledger.count,
        }
