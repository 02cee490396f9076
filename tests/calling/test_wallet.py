"""The wallet: never taken for fuller than it is, its floor kept, prices that can be none."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from nightscreen.calling.stops import CheckProgress, Stops
from nightscreen.calling.wallet import Wallet
from nightscreen.client.classify import CallOutcome
from nightscreen.client.response_rules import ChargeStatus
from nightscreen.schemas.stops import StopReason

NAIRA = 1_000_000


def wallet(floor_micro: int | None = None) -> Wallet:
    return Wallet(Stops({"karma": CheckProgress()}), floor_micro)


@given(st.integers(0, 10_000), st.integers(1, 12))
def test_it_is_never_taken_for_fuller_than_it_is(seed: int, lanes: int) -> None:
    """However answers overtake each other, at least so much is in the wallet."""
    rng = random.Random(seed)
    made, true = wallet(), 1000
    flying: list[tuple[int, int, int]] = []
    for _ in range(200):
        if len(flying) < lanes and rng.random() < 0.6:
            cost = rng.choice((0, 10))
            true -= cost
            flying.append((cost, true, made.settled_micro))
        elif flying:
            cost, balance, mark = flying.pop(rng.randrange(len(flying)))
            named = rng.random() < 0.8
            made.record_charge(cost if named else 10, balance if named else None, mark)
        in_flight = sum(cost for cost, _, _ in flying)
        if made.least_micro is not None:
            assert made.least_micro - in_flight <= true


def test_a_call_that_could_break_the_floor_waits_or_stops() -> None:
    """While others are under way it waits and lanes are woken; alone it stops the run."""
    made, woken = wallet(100), []
    made.record_charge(0, 125, 0)
    assert made.bind(20, 1)
    made.stops.on_stop(lambda: woken.append(1))
    assert not made.bind(20, 1)
    assert made.stops.reason is None
    made.unbind(20)
    assert woken == [1]
    made.record_charge(20, 105, 0)
    assert not made.bind(20, 1)
    assert made.stops.reason == StopReason.BALANCE


def test_without_a_balance_calls_go_one_at_a_time() -> None:
    """A floor cannot be watched blindly: until a balance is known, or after a wait, one goes."""
    made = wallet(100)
    for _ in range(2):
        assert made.bind(10, 1)
        assert not made.bind(10, 1)
        made.unbind(10)
        made.record_charge(0, 1000, 0)
        assert made.bind(10, 2) == 2
        made.unbind(10, 2)
        made.forget()


def test_the_highest_price_stays_and_only_a_rise_is_reported() -> None:
    """Calls are reserved at the highest price seen, although another answer cost less."""
    made = wallet()
    for cost in (20 * NAIRA, 10 * NAIRA, None, 20 * NAIRA):
        made.record_price("karma", cost, 10 * NAIRA)
    assert made.highest_micro == {"karma": 20 * NAIRA}
    assert len(made.stops.notices) == 1


def test_a_cost_that_can_be_no_price_is_reported_and_the_second_customer_stops_its_check() -> None:
    """The same customer twice is one witness, what a balance contradicts is none."""
    made = wallet()
    made.price_limits, made.stops.price_list = {"karma": 200 * NAIRA}, "/etc/prices.toml"
    notices = made.stops.notices

    def saw(subject: bytes, cost: int | None, *, absurd: bool = False, wrong: bool = False) -> None:
        answer = CallOutcome(ChargeStatus.ANSWERED, cost_micro=cost, absurd_cost=absurd)
        named = made.implausible_cost("karma", answer)
        if named is not None:
            made.report_implausible_cost("karma", subject, named, disproved=wrong)

    for cost in (201 * NAIRA, 300 * NAIRA):
        saw(b"a", cost)
    saw(b"b", 200 * NAIRA)
    assert len(notices) == 1
    for subject in (b"b", b"c"):
        saw(subject, 5_000 * NAIRA, wrong=True)
    assert len(notices) == 2
    assert not made.stops.checks
    saw(b"b", None, absurd=True)
    saw(b"c", 201 * NAIRA)
    assert made.stops.checks["karma"] == StopReason.AUTH
    assert "/etc/prices.toml" in notices[-1]
    assert made.stops.refusals() == []
    assert len(notices) == 4
