"""Control: stops, breaker, floor, notices and the watch for a service that is not live."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightscreen.calling.control import CheckProgress, Control, SpendingAlert, StopReason
from nightscreen.calling.detectors import (
    ALIKE_ANSWERS,
    ALIKE_HITS,
    BalanceEstimate,
    CircuitBreaker,
    TestModeDetector,
)
from nightscreen.client.classify import CallOutcome, ChargeStatus
from nightscreen.schemas.calls import LookupStatus

NAIRA = 1_000_000


def control(*checks: str) -> Control:
    """Return a control of some checks."""
    made = Control()
    made.progress = {check: CheckProgress() for check in checks or ("karma",)}
    return made


def test_the_first_reason_stays() -> None:
    """Later stops do not overwrite why the run stopped."""
    made = control()
    made.stop_run(StopReason.BUDGET)
    made.stop_run(StopReason.CANCELLED)
    assert made.stop == "budget"


def test_the_run_stops_where_no_check_is_left() -> None:
    """One check alone leaves the run going; the last one ends it."""
    made = control("karma", "ecosystem")
    made.stop_check("karma", "auth")
    assert made.stop is None
    assert made.may_send("ecosystem", 0, 0)
    assert not made.may_send("karma", 0, 0)
    made.stop_check("ecosystem", "quota")
    assert made.stop == "quota"


def test_listeners_are_told_of_stops() -> None:
    """Windows asleep wake up when the run or a check stops."""
    made = control("karma", "ecosystem")
    told: list[int] = []
    made.on_stop(lambda: told.append(1))
    made.stop_check("karma", "auth")
    made.stop_run("cancelled")
    assert len(told) == 2


def test_the_deadline_is_noticed_when_it_comes() -> None:
    """From the instant on nothing may be sent."""
    made = control()
    made.deadline_at = 100
    assert made.may_send("karma", 99, 0)
    assert not made.may_send("karma", 100, 0)
    assert made.stop == StopReason.DEADLINE


def test_going_on_clears_stop_and_breaker() -> None:
    """A stop that may have passed is forgotten with the silence that led to it."""
    made = control()
    made.breaker = CircuitBreaker(after=1)
    made.saw_trouble("karma", "cut", silence=True, at=0, now=0)
    made.stop_run(StopReason.OUTAGE)
    made.go_on()
    assert made.stop is None
    assert made.resume_at(0) is None


def test_failures_count_from_enough_lookups_on() -> None:
    """A few failures at the beginning stop nothing."""
    made = control()
    made.tolerated_failure_pct = 5
    for _ in range(100):
        made.ended("karma", LookupStatus.FAILED, 0)
    assert made.stop is None
    for _ in range(100):
        made.ended("karma", LookupStatus.FREE, 0)
    assert made.stop == StopReason.FAILURES


def test_a_notice_is_given_once_at_eighty_percent() -> None:
    """What others had spent under the cap counts."""
    made = control()
    made.watches = [SpendingAlert("day's", 100 * NAIRA, 60 * NAIRA)]
    made.ended("karma", LookupStatus.PAID, 19 * NAIRA)
    assert made.notices == []
    for _ in range(3):
        made.ended("karma", LookupStatus.PAID, NAIRA)
    assert made.notices == ["80% of the day's spending cap is used up"]


def test_a_risen_price_is_told_once_and_its_excess_summed() -> None:
    """Each call in flight at the old price adds to the excess; the notice comes once."""
    made = control()
    for _ in range(4):
        made.saw_answer("karma", 15 * NAIRA, 10 * NAIRA)
    assert made.excess_micro == 20 * NAIRA
    assert len(made.notices) == 1
    assert made.highest_micro["karma"] == 15 * NAIRA


def test_a_cost_that_can_be_no_price_is_reported_and_the_second_lookup_stops_its_check() -> None:
    """The same lookup twice is one witness, what a balance contradicts is none."""
    made = control()
    made.price_limits, made.price_list = {"karma": 200 * NAIRA}, "/etc/prices.toml"

    def saw(subject: bytes, cost: int | None, *, absurd: bool = False, wrong: bool = False) -> None:
        answer = CallOutcome(ChargeStatus.ANSWERED, cost_micro=cost, absurd_cost=absurd)
        named = made.disbelieved("karma", answer)
        if named is not None:
            made.saw_disbelieved("karma", subject, named, disproved=wrong)

    for cost in (201 * NAIRA, 300 * NAIRA):
        saw(b"a", cost)
    saw(b"b", 200 * NAIRA)
    assert len(made.notices) == 1
    for subject in (b"b", b"c"):
        saw(subject, 5_000 * NAIRA, wrong=True)
    assert len(made.notices) == 2
    assert not made.stopped_checks
    saw(b"b", None, absurd=True)
    saw(b"c", 201 * NAIRA)
    assert made.stopped_checks["karma"] == StopReason.AUTH
    assert "/etc/prices.toml" in made.notices[-1]
    assert made.refusals() == []
    assert len(made.notices) == 4


@given(st.integers(0, 10_000), st.integers(1, 12))
def test_the_wallet_is_never_taken_for_fuller_than_it_is(seed: int, lanes: int) -> None:
    """However answers overtake each other, at least so much is in the wallet."""
    rng = random.Random(seed)
    wallet, true = BalanceEstimate(), 1000
    flying: list[tuple[int, int, int]] = []
    for _ in range(200):
        if len(flying) < lanes and rng.random() < 0.6:
            mark = wallet.settled_micro
            cost = rng.choice((0, 10))
            true -= cost
            flying.append((cost, true, mark))
        elif flying:
            cost, balance, mark = flying.pop(rng.randrange(len(flying)))
            told = rng.random() < 0.8
            wallet.takes(cost if told else 10, balance if told else None, mark)
        in_flight = sum(cost for cost, _, _ in flying)
        if wallet.least_micro is not None:
            assert wallet.least_micro - in_flight <= true


def test_a_call_that_could_break_the_floor_waits_or_stops() -> None:
    """While others are under way it waits and is reported; alone it stops the run."""
    made = control()
    made.balance_floor_micro = 100
    made.came_back(0, 125, 0)
    assert made.bind(20, 1)
    told: list[int] = []
    made.on_stop(lambda: told.append(1))
    assert not made.bind(20, 1)
    assert made.stop is None
    made.unbind(20)
    assert told == [1]
    made.came_back(20, 105, 0)
    assert not made.bind(20, 1)
    assert made.stop == StopReason.BALANCE


def test_without_a_balance_calls_go_one_at_a_time() -> None:
    """A floor cannot be watched blindly: until a balance is known each call is alone."""
    made = control()
    made.balance_floor_micro = 100
    assert made.bind(10, 1)
    assert not made.bind(10, 1)
    made.unbind(10)
    assert made.bind(10, 1)


@pytest.mark.parametrize(("hit", "number"), [(True, ALIKE_HITS), (False, ALIKE_ANSWERS)])
def test_free_answers_without_a_difference_are_suspicious(number: int, *, hit: bool) -> None:
    """The same answer for many people at no cost is reported once."""
    made = control()
    for _ in range(2 * number):
        made.saw_body("karma", b"sample", 0, hit=hit)
    assert len(made.notices) == 1
    assert made.notices[0].startswith(f"suspicious: {number} karma answers")


@pytest.mark.parametrize(
    ("bodies", "cost"),
    [([b"one", b"two"], 0), ([b"same", b"same"], 10), ([b"same", b"other"], None)],
)
def test_answers_that_differ_or_cost_are_live(bodies: list[bytes], cost: int | None) -> None:
    """One difference or one charge is enough to trust the service."""
    likeness = TestModeDetector()
    found = [likeness.saw(bodies[n % 2], cost, hit=True) for n in range(3 * ALIKE_HITS)]
    assert not any(found)


def test_hits_among_misses_are_live() -> None:
    """Misses may all be alike; a hit among them shows that somebody looks."""
    likeness = TestModeDetector()
    assert not likeness.saw(b"hit", 0, hit=True)
    assert not any(likeness.saw(b"miss", 0, hit=False) for _ in range(2 * ALIKE_ANSWERS))


def test_the_breaker_probes_at_intervals() -> None:
    """Open after some silence, one probe at a time, until there is an answer."""
    breaker = CircuitBreaker(after=3, probe_every=10)
    for _ in range(3):
        assert breaker.resume_at(0, 0) is None
        breaker.silence(0)
    assert breaker.resume_at(0, 0) == 10
    assert breaker.resume_at(10, 0) is None
    assert breaker.resume_at(10, 1) is not None
    breaker.silence(11)
    assert breaker.resume_at(11, 0) == 21
    breaker.answered()
    assert breaker.resume_at(0, 0) is None
