"""Named scenarios: the moods a sandbox can be started in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from nightscreen.sandbox.latency import Profile, fixed, lognormal
from nightscreen.sandbox.manners import Manners

FLAKY_RATES: Final = dict.fromkeys(
    (
        *("http_429", "http_500", "http_502", "http_503", "http_504"),
        *("cut_before_charge", "cut_after_charge", "truncated", "unreadable", "timeout"),
    ),
    0.05,
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One mood.

    Attributes:
        name: as on the command line.
        about: one line for people.
        latency: how long answers take.
        rates: share of calls that meet each fault.
        manners: habits that differ from the default ones.
        dry_at_call: the call that finds the wallet empty.
        test_mode: `mock-response`, `empty` or None.
    """

    name: str
    about: str
    latency: Profile = field(default_factory=lambda: fixed(5))
    rates: dict[str, float] = field(default_factory=dict)
    manners: Manners = field(default_factory=Manners)
    dry_at_call: int | None = None
    test_mode: str | None = None


SCENARIOS: Final = {
    one.name: one
    for one in (
        Scenario("calm", "answers in 5 ms, nothing goes wrong"),
        Scenario(
            "flaky",
            "about half of the calls fail, 5 % in each of ten ways",
            rates=FLAKY_RATES,
            manners=Manners(silence_s=2.0),
        ),
        Scenario("slow", "3 s at the median, 20 s at worst", latency=lognormal(3000, 20_000)),
        Scenario("empty-wallet", "the 200th call finds the wallet empty", dry_at_call=200),
        Scenario(
            "mixed-consents",
            "one-time passwords late, lost or not sent to some; both shapes of BVN consent",
            manners=Manners(otp_delivery="mixed", bvn_finish="mixed"),
        ),
        Scenario(
            "no-distributor",
            "the key is no distributor's: no loans",
            manners=Manners(distributor=False),
        ),
        Scenario("test-mode", "every answer is the sample record", test_mode="mock-response"),
    )
}
