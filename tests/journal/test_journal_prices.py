"""Prices: what is believed, what is reserved, and how few calls are under way until it is known."""

from __future__ import annotations

from dataclasses import replace

from nightscreen.journal import Journal
from nightscreen.schemas.calls import (
    Caps,
    Reservation,
    ReservationStatus,
    ReserveRequest,
)
from nightscreen.schemas.clock import MICROS
from nightscreen.schemas.money import RECENT_MICROS
from tests.journal.conftest import PRICE, Place, asks, by_name, ended, kinds, reserve

LIMIT = 20 * PRICE
LIMITS = (("karma", LIMIT), ("ecosystem", 2 * LIMIT))


def under(many_prices: float) -> Caps:
    """Return a cap of the run of so many prices, and what is believed to be one."""
    return Caps(run_micro=int(many_prices * PRICE), price_limits=LIMITS)


def settle(
    journal: Journal, pair: tuple[ReserveRequest, Reservation], cost: int, run: str = "run-1"
) -> None:
    """Settle a call at a cost, which is named as such where it is beyond belief."""
    named = cost if cost > LIMIT else None
    journal.calls.settle(run, [replace(ended(pair, cost=cost), named_micro=named)])


def reserved(journal: Journal, run: str) -> list[int]:
    return [row.reserved_micro for rows in journal.runs.calls(run) for row in rows]


def test_a_price_counts_until_a_weekly_run_is_over(place: Place) -> None:
    """The highest price of late is reserved, whatever the latest; an old one binds nobody."""
    journal = place.open()
    for number, cost in ((1, 3 * PRICE), (2, PRICE)):
        settle(journal, reserve(journal, number)[0], cost)
    place.clock.now += RECENT_MICROS - 60 * MICROS
    reserve(journal, 3, run="weekly")
    assert reserved(journal, "weekly") == [3 * PRICE]
    place.clock.now += 60 * MICROS
    later = reserve(journal, 4, run="later")
    assert reserved(journal, "later") == [PRICE]
    settle(journal, later[0], PRICE, "later")
    assert journal.money.prices()["karma"].highest_micro == PRICE


def test_near_the_cap_unconfirmed_calls_go_one_at_a_time(journal: Journal) -> None:
    """A miss confirms nothing: the next one goes when it has settled."""
    for number in range(1, 6):
        pairs = reserve(journal, number, number + 1, caps=under(5))
        assert kinds(pairs) == [ReservationStatus.GRANTED, ReservationStatus.LATER]
        settle(journal, pairs[0], 0)


def test_one_at_a_time_holds_over_processes_checks_and_runs(place: Place) -> None:
    """Whatever shares a cap waits, for the living alone; what does not goes on.

    Calls of a dead process are put in doubt with the next claim.
    """
    one, other = place.open(), place.open()
    day = Caps(day_micro=30 * PRICE, price_limits=LIMITS)
    assert kinds(reserve(one, 1, caps=day)) == [ReservationStatus.GRANTED]
    assert kinds(reserve(other, 2, caps=day, run="run-2")) == [ReservationStatus.LATER]
    wanted = asks(3, check="ecosystem")
    assert by_name(other, "run-2", wanted, day)[0].kind is ReservationStatus.LATER
    one.close()
    assert kinds(reserve(other, 2, caps=day, run="run-2")) == [ReservationStatus.GRANTED]
    assert kinds(reserve(other, 4, caps=under(30), run="run-3")) == [ReservationStatus.GRANTED]


def test_the_first_charged_call_may_take_a_run_past_its_cap_and_no_other(journal: Journal) -> None:
    """List 10, real price 200, cap 100: one call is charged, whatever is wanted."""
    number, charged = 1, 0
    for _ in range(30):
        for pair in reserve(journal, *range(number, number + 8), caps=under(10)):
            if pair[1].kind is ReservationStatus.GRANTED:
                settle(journal, pair, LIMIT)
                charged += LIMIT
                number += 1
    assert charged == LIMIT


def test_the_price_is_confirmed_anew_after_noon(place: Place) -> None:
    """A session that goes on into the next day keeps what it knows."""
    journal = place.open()
    settle(journal, reserve(journal, 1, caps=under(30))[0], 0)
    place.clock.now += 86_400 * MICROS
    pairs = reserve(journal, 2, 3, caps=under(30))
    assert kinds(pairs) == [ReservationStatus.GRANTED, ReservationStatus.LATER]
    settle(journal, pairs[0], PRICE)
    place.clock.now += 86_400 * MICROS
    assert kinds(reserve(journal, 3, 4, caps=under(25))) == [ReservationStatus.GRANTED] * 2
