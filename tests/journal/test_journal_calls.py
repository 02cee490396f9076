"""Intents and outcomes: what is granted, held, settled, doubted and recovered."""

from __future__ import annotations

import threading
import time

import pytest
from sqlalchemy import func, select

from nightscreen.journal import Journal
from nightscreen.journal.erasure import Erasures
from nightscreen.journal.money import Spent
from nightscreen.journal.schema import ErasedPseudonyms, answers
from nightscreen.schemas.calls import CallState, Caps, ReservationStatus
from nightscreen.schemas.clock import MICROS
from tests.journal.conftest import NOON, PRICE, Place, asks, by_name, ended, kinds, reserve, subject


def test_a_block_is_granted_and_its_worst_cost_reserved(journal: Journal) -> None:
    """Intents are committed with their reservation in every scope."""
    pairs = reserve(journal, 1, 2, 3)
    assert kinds(pairs) == [ReservationStatus.GRANTED] * 3
    assert [grant.call_id for _, grant in pairs] == [1, 2, 3]
    assert journal.money.of_run("run-1") == Spent(0, 3 * PRICE, 3)
    assert journal.money.today() == journal.money.this_month() == Spent(0, 3 * PRICE, 3)


def test_settling_twice_counts_once(journal: Journal) -> None:
    """The same outcome handed in again, in the same group or later, changes nothing."""
    pairs = reserve(journal, 1, 2)
    once = ended(pairs[0])
    journal.calls.settle("run-1", [once, once])
    journal.calls.settle("run-1", [once, ended(pairs[0], CallState.NOT_SENT), ended(pairs[1])])
    assert journal.money.of_run("run-1") == Spent(2 * PRICE, 0, 2)


ENDS: tuple[tuple[CallState, int | None, Spent], ...] = (
    (CallState.ANSWERED, None, Spent(0, PRICE, 1)),
    (CallState.IN_DOUBT, None, Spent(0, PRICE, 1)),
    (CallState.NOT_SENT, None, Spent(0, 0, 0)),
    (CallState.NOT_CHARGED, None, Spent(0, 0, 1)),
    (CallState.TEST_MODE, None, Spent(0, 0, 1)),
)
"""How a call ends, at which cost, and what its run has spent, reserved and asked then."""


def test_each_end_keeps_or_frees_the_reservation(journal: Journal) -> None:
    """A doubt and an unknown cost stay reserved; what was never sent does not count as a call."""
    for number, (state, cost, expected) in enumerate(ENDS, start=1):
        (pair,) = reserve(journal, number, run=f"run-{number}")
        journal.calls.settle(f"run-{number}", [ended(pair, state, cost=cost)])
        assert journal.money.of_run(f"run-{number}") == expected, state


def test_a_cap_holds_to_the_last_micro_naira(journal: Journal) -> None:
    """What fits exactly is granted; one micro-naira less is too little."""
    exact = Caps(run_micro=2 * PRICE)
    assert kinds(reserve(journal, 1, caps=exact)) == [ReservationStatus.GRANTED]
    less = Caps(run_micro=2 * PRICE - 1)
    assert kinds(reserve(journal, 2, caps=less)) == [ReservationStatus.UNAFFORDABLE]
    assert kinds(reserve(journal, 2, caps=exact)) == [ReservationStatus.GRANTED]


CAPS_AND_LEFT: tuple[tuple[Caps, int | None], ...] = (
    (Caps(), None),
    (Caps(run_micro=9 * PRICE), 8 * PRICE),
    (Caps(run_micro=9 * PRICE, day_micro=7 * PRICE), 4 * PRICE),
    (Caps(run_micro=9 * PRICE, day_micro=7 * PRICE, month_micro=7 * PRICE), PRICE),
    (Caps(day_micro=2 * PRICE), 0),
)
"""Caps, and what is left under all of them: 1 call by the run, 3 today, 6 this month."""


def test_what_is_left_is_left_under_every_cap(place: Place) -> None:
    """The run, the day and the month are counted over all runs; what is exceeded leaves nothing."""
    journal = place.open()
    place.clock.now = NOON - 3600 * MICROS
    reserve(journal, 1, 2, 3, run="yesterday")
    place.clock.now = NOON
    reserve(journal, 4, 5, run="other")
    reserve(journal, 6)
    for caps, left in CAPS_AND_LEFT:
        assert journal.money.left("run-1", caps) == left, caps


def test_calls_a_day_are_limited_by_check_and_end_at_noon(place: Place) -> None:
    """The quota holds over runs, what was not sent is given back, and noon in Lagos renews it."""
    journal = place.open()
    caps = Caps(day_calls=(("karma", 2),))
    first = reserve(journal, 1, 2, 3, caps=caps)
    assert kinds(first)[2] is ReservationStatus.QUOTA
    assert kinds(reserve(journal, 4, caps=caps, run="run-2")) == [ReservationStatus.QUOTA]
    journal.calls.settle("run-1", [ended(first[0], CallState.NOT_SENT)])
    assert kinds(reserve(journal, 4, caps=caps, run="run-2")) == [ReservationStatus.GRANTED]
    place.clock.now = NOON + 86_400 * MICROS
    assert kinds(reserve(journal, 5, caps=caps)) == [ReservationStatus.GRANTED]


def test_a_call_counts_for_the_day_of_its_intent(place: Place) -> None:
    """An outcome after noon settles the money of the day before."""
    journal = place.open()
    place.clock.now = NOON + 86_400 * MICROS - 2 * MICROS
    pairs = reserve(journal, 1)
    place.clock.now = NOON + 86_400 * MICROS + MICROS
    journal.calls.settle("run-1", [ended(pairs[0])])
    assert journal.money.today() == Spent()
    ((day, _, spent),) = journal.money.by_day()
    assert (day, spent) == ("2026-02-28", Spent(PRICE, 0, 1))


def test_a_subject_asked_by_the_living_is_held(place: Place) -> None:
    """Neither another process nor the same one makes the same call twice at the same time."""
    one, other = place.open(), place.open()
    reserve(one, 1)
    assert kinds(reserve(other, 1, 2, run="run-2")) == [
        ReservationStatus.HELD,
        ReservationStatus.GRANTED,
    ]
    assert kinds(reserve(one, 1)) == [ReservationStatus.HELD]
    assert kinds(reserve(one, 7, 7)) == [ReservationStatus.GRANTED, ReservationStatus.HELD]


def dies(one: Journal, seen_by: Journal) -> None:
    """Let a process give up its lock, and wait until others see it: a database takes its time."""
    name = one.holders.name
    one.holders.release()
    while seen_by.holders.alive(name):
        time.sleep(0.01)


def test_recovery_doubts_exactly_what_the_dead_left(place: Place) -> None:
    """Intents of the living stay; those of the dead are doubted once and keep their money."""
    dead, living, mine = place.open(), place.open(), place.open()
    reserve(dead, 1, 2, run="run-1")
    reserve(living, 3, run="run-2")
    reserve(mine, 4, run="run-3")
    dies(dead, mine)
    assert mine.calls.recover() == 2
    assert mine.calls.recover() == 0
    assert [row.call_id for row in mine.runs.in_doubt()] == [1, 2]
    assert mine.money.of_run("run-1") == Spent(0, 2 * PRICE, 2)


def test_a_late_outcome_of_one_taken_for_dead_is_kept(place: Place) -> None:
    """An answer that was paid for is not thrown away because its process seemed dead."""
    one, other = place.open(), place.open()
    pairs = reserve(one, 1, 2)
    dies(one, other)
    assert other.calls.recover() == 2
    one.calls.settle("run-1", [ended(pairs[0]), ended(pairs[1], CallState.IN_DOUBT)])
    assert other.money.of_run("run-1") == Spent(PRICE, PRICE, 2)
    one.calls.settle("run-1", [ended(pairs[0]), ended(pairs[1])])
    assert other.money.of_run("run-1") == Spent(PRICE, PRICE, 2)


def test_a_late_outcome_about_an_erased_person_is_money_only(place: Place) -> None:
    """The person was erased while its process seemed dead: neither pseudonym nor answer is back."""
    one, other = place.open(), place.open()
    (pair,) = reserve(one, 1)
    dies(one, other)
    other.calls.recover()
    Erasures(other).erase(ErasedPseudonyms([subject(1)]))
    one.calls.settle("run-1", [ended(pair)])
    assert other.money.of_run("run-1") == Spent(PRICE, 0, 1)
    assert other.answers.latest("karma", [subject(1)]) == {}
    with other.database.reading() as connection:
        assert connection.execute(select(func.count()).select_from(answers)).scalar() == 0


def test_a_price_rise_is_reserved_at_once_everywhere_and_reported(place: Place) -> None:
    """The excess is the rise times the calls that were in flight, and no more."""
    one, other = place.open(), place.open()
    caps = Caps(day_micro=10 * PRICE)
    pairs = reserve(one, 1, 2, 3, caps=caps)
    one.calls.settle("run-1", [ended(pairs[0], cost=3 * PRICE)])
    assert kinds(reserve(other, 4, 5, caps=caps, run="run-2")) == [
        ReservationStatus.GRANTED,
        ReservationStatus.UNAFFORDABLE,
    ]
    one.calls.settle("run-1", [ended(each, cost=3 * PRICE) for each in pairs[1:]])
    assert one.money.price_rises("run-1") == 6 * PRICE
    assert one.money.price_rises("run-2") == 0
    assert other.money.today().bound_micro == 12 * PRICE


def test_threads_and_processes_never_pass_a_shared_cap(place: Place) -> None:
    """Eight threads on two openings of one journal spend a daily cap to the last call."""
    openings = (place.open(), place.open())
    caps = Caps(day_micro=40 * PRICE)
    granted: list[int] = []

    def work(worker: int) -> None:
        journal = openings[worker % 2]
        for block in range(4):
            first = 1000 * worker + 10 * block
            for pair in reserve(journal, *range(first, first + 5), caps=caps, run=f"r{worker}"):
                if pair[1].kind is ReservationStatus.GRANTED:
                    granted.append(pair[1].call_id)
                    journal.calls.settle(f"r{worker}", [ended(pair)])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(granted) == list(range(1, 41))
    assert openings[0].money.today() == Spent(40 * PRICE, 0, 40)


def test_a_process_that_lost_its_lock_sends_nothing_more(place: Place) -> None:
    """Others take it for dead: it must stop before it makes a call that they make too."""
    journal = place.open()
    journal.holders.release()
    with pytest.raises(Exception, match="resume the run"):
        by_name(journal, "run-1", asks(1), Caps(), since=0)
