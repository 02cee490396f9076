"""The cap keeps its height under constant failures and finds limits nobody told it of.

Retries wait by class of failure, with full jitter, and end. A discrete-event simulation stands in
for the service; nothing here waits for a clock.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightscreen.client.classify import BY_TROUBLE, CallOutcome, next_attempt
from nightscreen.client.limiter import AdaptiveCap, CallStart
from nightscreen.client.response_rules import ChargeStatus, FailureReason

SEEDS = range(4)
REFUSAL_S = 0.005
WARM_UP = 0.2  # share of the results that are not counted


@dataclass
class Seen:
    """What a simulated run came to, after its warm-up."""

    share_of_maximum: float
    share_of_limit: float
    refused: float


def simulate(
    maximum: int,
    *,
    seed: int,
    failing: float = 0.0,
    limit: Callable[[float], int] | None = None,
    results: int = 10_000,
) -> Seen:
    """Keep the window full against a service that takes about 100 ms a call."""
    rng, cap, now, order = random.Random(seed), AdaptiveCap(maximum), 0.0, count()
    flying: list[tuple[float, int, bool, bool, CallStart]] = []
    busy, counted, refused = 0, 0, 0
    held, allowed, begun = 0.0, 0.0, 0.0
    for number in range(results):
        while len(flying) < cap.cap:
            taken = limit is None or busy < limit(now)
            took = 0.1 * rng.lognormvariate(0, 0.3) if taken else REFUSAL_S * rng.uniform(0.5, 1.5)
            strain = not taken or rng.random() < failing
            begun_as = cap.begin(len(flying) + 1)
            heapq.heappush(flying, (now + took, next(order), strain, taken, begun_as))
            busy += taken
        at, _, strain, taken, begun_as = heapq.heappop(flying)
        if number >= WARM_UP * results:
            begun = begun or now
            held += cap.cap * (at - now)
            allowed += min(maximum, limit(at) if limit else maximum) * (at - now)
            counted += 1
            refused += not taken
        now, busy = at, busy - taken
        cap.on_result(begun=begun_as, strain=strain, now=now)
    return Seen(held / (maximum * (now - begun)), held / allowed, refused / counted)


@pytest.mark.parametrize(
    ("maximum", "failing"),
    [(2, 0.5), (3, 0.2), *((maximum, part) for maximum in (8, 200) for part in (0.01, 0.2, 0.5))],
)
def test_constant_failures_are_no_reason_to_crawl(maximum: int, failing: float) -> None:
    """A service that fails as often at any load keeps at least 90 % of the cap."""
    shares = [simulate(maximum, failing=failing, seed=seed).share_of_maximum for seed in SEEDS]
    assert fmean(shares) >= 0.95
    assert min(shares) >= 0.85


@pytest.mark.parametrize(("maximum", "hidden"), [(8, 3), (50, 33), (200, 150)])
def test_hidden_limit_is_found_and_respected(maximum: int, hidden: int) -> None:
    """At least 90 % of a limit is used with at most 1 % of calls refused."""
    runs = [
        simulate(maximum, failing=0.01, limit=lambda _: hidden, seed=seed, results=5_000)
        for seed in SEEDS
    ]
    assert all(0.9 <= seen.share_of_limit <= 1.02 for seen in runs)
    assert fmean(seen.refused for seen in runs) <= 0.01


def test_limit_that_moves_every_ten_seconds_is_followed() -> None:
    """At least 90 % of it is used with at most 1 % of calls refused, both at once."""
    limits = (24, 48, 36, 60)
    runs = [
        simulate(
            80,
            limit=lambda now: limits[int(now // 10) % len(limits)],
            seed=seed,
            results=17_000,
        )
        for seed in SEEDS
    ]
    assert all(seen.share_of_limit >= 0.9 for seen in runs)
    assert fmean(seen.refused for seen in runs) <= 0.01


def test_service_that_begins_to_fail_at_any_load_is_not_taken_for_overloaded() -> None:
    """A cap that was well before comes back after failures set in that load has no part in."""
    cap, rng = AdaptiveCap(20), random.Random(3)
    for number in range(6_000):
        strain = number > 2_000 and rng.random() < 0.3
        cap.on_result(begun=cap.begin(cap.cap), strain=strain, now=float(number))
    assert cap.cap >= 18


def test_results_of_calls_begun_before_a_step_down_tell_nothing() -> None:
    """What was refused at the larger cap is not held against the smaller one."""
    cap = AdaptiveCap(64)
    before = cap.begin(64)
    while cap.cap >= 16:
        cap.on_result(begun=before, strain=True, now=0.0)
        if cap.begin(1).generation != before.generation:
            break
    stepped = cap.cap
    for _ in range(60):
        cap.on_result(begun=before, strain=True, now=0.1)
    assert cap.cap == stepped


def test_dead_service_is_left_almost_alone() -> None:
    """Where every call fails the cap goes down to 1 and stays there."""
    cap = AdaptiveCap(64)
    for number in range(2000):
        cap.on_result(begun=cap.begin(cap.cap), strain=True, now=float(number))
    assert cap.cap == 1


def test_retry_after_pauses_the_whole_check() -> None:
    """The latest end of all pauses holds; an answer's own header pauses nothing."""
    cap = AdaptiveCap(8)
    cap.on_result(begun=cap.begin(4), strain=True, now=10.0, retry_after_s=5)
    cap.on_result(begun=cap.begin(4), strain=True, now=11.0, retry_after_s=1)
    cap.on_result(begun=cap.begin(4), strain=False, now=12.0, retry_after_s=60)
    assert cap.paused_until == 15.0


def test_cap_does_not_grow_unused() -> None:
    """A window that was never full proves nothing about a larger one."""
    cap = AdaptiveCap(64)
    for number in range(500):
        cap.on_result(begun=cap.begin(1), strain=False, now=float(number))
    assert cap.cap == 16


@given(
    maximum=st.integers(1, 40),
    start=st.integers(1, 60),
    results=st.lists(st.tuples(st.booleans(), st.integers(0, 60)), max_size=400),
)
def test_cap_keeps_its_bounds(maximum: int, start: int, results: list[tuple[bool, int]]) -> None:
    """Never over the maximum, never under 1, whatever happens."""
    cap = AdaptiveCap(maximum, start)
    for number, (strain, in_flight) in enumerate(results):
        cap.on_result(begun=cap.begin(in_flight), strain=strain, now=float(number))
        assert 1 <= cap.cap <= maximum


def failed(trouble: FailureReason = FailureReason.OVERLOAD, **more: float) -> CallOutcome:
    """Return a reading that may be tried again."""
    return CallOutcome(ChargeStatus.IN_DOUBT, trouble=trouble, retry=True, **more)  # type: ignore[arg-type]


def waits_s(reading: CallOutcome, attempt: int = 1, number: int = 20) -> list[float]:
    """Return so many draws of the wait after an attempt."""
    source = random.Random(1)
    drawn = [next_attempt(reading, attempt, 99, random=source) for _ in range(number)]
    return [wait for wait in drawn if wait is not None]


def test_attempts_end() -> None:
    """A rejected call and an answer are final at once."""
    assert next_attempt(failed(), 4, 5, random=random.Random(1)) is not None
    assert next_attempt(failed(), 5, 5, random=random.Random(1)) is None
    for verdict in (ChargeStatus.ANSWERED, ChargeStatus.NOT_CHARGED):
        assert waits_s(CallOutcome(verdict)) == []


def test_waits_double_up_to_a_bound_with_full_jitter() -> None:
    """Waits spread over the whole span from nought."""
    for trouble, backoff in BY_TROUBLE.items():
        for attempt in range(1, 40, 3):
            bound = min(backoff.longest_s, backoff.first_s * 2 ** (attempt - 1))
            waits = waits_s(failed(trouble), attempt, 200)
            assert len(waits) == 200, trouble
            assert min(waits) < 0.1 * bound < 0.9 * bound < max(waits) <= bound, trouble


def test_retry_after_is_the_least_wait() -> None:
    """What the service asks for is kept, and calls do not come back together.

    One answer is not waited for an hour: a call by itself comes back after five minutes and a
    little, whatever it was told.
    """
    waits = waits_s(failed(FailureReason.REFUSED, retry_after_s=7.0))
    assert len(set(waits)) == 20
    assert min(waits) >= 7.0
    long = waits_s(failed(FailureReason.REFUSED, retry_after_s=3600.0))
    assert 300 <= min(long) <= max(long) < 310
