"""Everything the sandbox remembers while it runs: one object, reset as a whole to a scenario."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import Depends, Request
from pydantic import TypeAdapter

from nightscreen.sandbox import people
from nightscreen.sandbox.faults import ALL, BehaviourFlags, FaultPlan, Latency, Profile
from nightscreen.sandbox.grants import Grants, is_on_loopback
from nightscreen.sandbox.ledger import PRICES, Amount, Ledger, Wallet, micros_of, naira_text
from nightscreen.sandbox.loan_book import LoanBook
from nightscreen.sandbox.otp import OtpOutbox
from nightscreen.sandbox.people import Person, person_of_bvn
from nightscreen.sandbox.transactions import Owner, owner_of

if TYPE_CHECKING:
    from nightscreen.sandbox.people import Record

SANDBOX: Final = "sandbox"  # key of the sandbox in the scope of a request
DEFAULT_KEY: Final = "sandbox-key"
DEFAULT_BALANCE: Final = "1000000"
_FIVE_MS: Final = Profile(kind="fixed", ms=5)
_USUAL: Final = BehaviourFlags()
_FLAKY: Final = (
    *("http_429", "http_500", "http_502", "http_503", "http_504"),
    *("cut_before_charge", "cut_after_charge", "truncated", "unreadable", "timeout"),
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One mood."""

    latency: Profile = _FIVE_MS  # how long answers take
    rates: dict[str, float] = field(default_factory=dict)  # share of calls that meet each fault
    manners: BehaviourFlags = _USUAL  # habits that differ from the default ones
    test_mode: str | None = None  # `mock-response`, `empty` or None


SCENARIOS: Final = {
    "calm": Scenario(),
    "flaky": Scenario(rates=dict.fromkeys(_FLAKY, 0.05), manners=BehaviourFlags(silence_s=2.0)),
    "slow": Scenario(latency=Profile(kind="lognormal", median_ms=3000, p99_ms=20_000)),
    "test-mode": Scenario(test_mode="mock-response"),
}
"""The moods by name, as `docs/sandbox.md` describes them."""


@dataclass(slots=True)
class Planted:
    """What tests planted in place of what is made up; by identifier, None if nothing is found."""

    people: dict[str, Person] = field(default_factory=dict)
    # BVN of who holds an account, by bank code and number
    holders: dict[tuple[str, str], str | None] = field(default_factory=dict)
    listings: dict[str, Record | None] = field(default_factory=dict)
    histories: dict[str, Record | None] = field(default_factory=dict)
    customers: dict[str, Owner] = field(default_factory=dict)

    def person(self, bvn: str) -> Person:
        """Return the person of a BVN."""
        return self.people.get(bvn) or person_of_bvn(bvn)

    def owner(self, customer: str) -> Owner:
        """Return who signs in under a username, and their life."""
        owner = self.customers.get(customer) or owner_of(customer)
        return owner._replace(person=self.people.get(owner.person.bvn, owner.person))

    def karma(self, identity: str, day: int) -> Record | None:
        """Return what the blacklist holds on an identity; what is of no kind is not listed."""
        if identity in self.listings:
            return self.listings[identity]
        return people.karma_of(identity, day=day)

    def history(self, bvn: str, day: int) -> Record | None:
        """Return what the borrower history holds on a BVN."""
        fields = self.histories.get(bvn, {})
        if fields is None:
            return None
        known, person = bvn in self.histories, self.person(bvn)
        whole = people.ecosystem_of(bvn, day=day, person=person, known=known)
        return whole and {**whole, **fields}

    def account(self, code: str, number: str, day: int, *, masked: bool) -> Record | None:
        """Return what a bank account lookup answers."""
        holder = people.holder_of(code, number, day=day)
        bvn = self.holders.get((code, number), holder.bvn if holder else None)
        return people.account_record(self.person(bvn), code, number, masked=masked) if bvn else None


class Sandbox:
    """The state of one running sandbox.

    Args:
        scenario: a name of `SCENARIOS`.
        api_key: the only key that is right.
        balance: naira in the wallet, as decimal text.
        seed: chooses faults and latencies.
        ledger_limit: how many ledger entries are kept; None keeps all.

    Raises:
        ValueError: the balance is no amount.
    """

    def __init__(
        self,
        scenario: str = "calm",
        *,
        api_key: str = DEFAULT_KEY,
        balance: str = DEFAULT_BALANCE,
        seed: int = 0,
        ledger_limit: int | None = None,
    ) -> None:
        self._first_scenario = scenario
        self._balance_micros = micros_of(TypeAdapter(Amount).validate_python(balance))
        self._seed, self._ledger_limit = seed, ledger_limit
        self.authorization = f"Bearer {api_key}"
        # the addresses to which customers may be sent back; None takes any on loopback
        self.redirect_uris: tuple[str, ...] | None = None
        self.in_flight = Counter({ALL: 0})
        self.reset()

    def reset(self, scenario: str | None = None) -> None:
        """Go back to the beginning of a scenario: empty ledger, full wallet, no faults set."""
        self.scenario = scenario or self._first_scenario
        mood = SCENARIOS[self.scenario]
        self.manners = mood.manners
        self.wallet = Wallet(self._balance_micros)
        self.prices = dict(PRICES)  # micro-naira, by operation
        self.ledger = Ledger(self._ledger_limit)
        self.latency = Latency(mood.latency, self._seed)
        self.faults = FaultPlan(self._seed, {ALL: dict(mood.rates)} if mood.rates else {})
        self.test_mode = mood.test_mode
        self.day = 0
        self.attempts: Counter[tuple[str, str]] = Counter()
        self.calls = Counter({ALL: 0})
        self.peak = self.in_flight.copy()
        self.otps = OtpOutbox()
        self.grants = Grants()
        self.planted = Planted()
        self.loans = LoanBook()
        self.ahead_s = 0.0

    def now(self) -> float:
        """Return the sandbox's own time in seconds: it never goes back, and can be moved ahead."""
        return time.monotonic() + self.ahead_s

    def takes(self, redirect_uri: str) -> bool:
        """Return whether customers may be sent to an address; a registered one must be exact."""
        if self.redirect_uris is None:
            return is_on_loopback(redirect_uri)
        return redirect_uri in self.redirect_uris

    def arrive(self, operation: str) -> int:
        """Count a call in; returns how many are in flight now, this one included."""
        for name in (operation, ALL):
            self.in_flight[name] += 1
            self.peak[name] = max(self.peak[name], self.in_flight[name])
        return self.in_flight[ALL]

    def leave(self, operation: str) -> None:
        """Count a call out."""
        self.in_flight[operation] -= 1
        self.in_flight[ALL] -= 1

    def count_call(self, operation: str, identity: str) -> tuple[int, tuple[int, int]]:
        """Count an authorised call; returns its attempt number and its two call numbers."""
        key = (operation, identity)
        self.attempts[key] += 1
        self.calls.update((operation, ALL))
        return self.attempts[key], (self.calls[operation], self.calls[ALL])

    def as_json(self) -> dict[str, object]:
        """Return all that can be set, as it is now."""
        return {
            "scenario": self.scenario,
            "seed": self._seed,
            "test_mode": self.test_mode,
            "day": self.day,
            "ahead_s": self.ahead_s,
            "wallet": self.wallet.as_json(),
            "prices": {name: naira_text(price) for name, price in self.prices.items()},
            "latency": self.latency.as_json(),
            "faults": asdict(self.faults),
            "manners": self.manners.model_dump(),
            "calls": self.calls,
        }


async def _here(request: Request) -> Sandbox:
    sandbox: Sandbox = request.scope[SANDBOX]
    return sandbox


Here = Annotated[Sandbox, Depends(_here)]  # the sandbox whose address was called
