"""A cap on calls under way that processes share: a condition of reserving, and a fair one."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from nightscreen.journal.shared_caps import (
    STALE_MICROS,
    WISH_LASTS_MICROS,
    CapUser,
    cap_users,
    slots_for,
)
from nightscreen.journal.tables import calls
from nightscreen.schemas.calls import CallState, Caps, Reservation, ReservationStatus
from nightscreen.schemas.clock import MICROS
from tests.how_many import examples
from tests.storage.conftest import Place, asks, ended, reserve

if TYPE_CHECKING:
    from nightscreen.journal import Journal
    from nightscreen.schemas.calls import ReserveRequest

SHARED = Caps(in_flight=(("karma", 4), ("bvn", 2)))
GRANTED, BUSY = ReservationStatus.GRANTED, ReservationStatus.BUSY

Pair = tuple["ReserveRequest", Reservation]


def kinds(pairs: list[Pair]) -> list[ReservationStatus]:
    """Return what became of each ask."""
    return [grant.kind for _, grant in pairs]


def end(journal: Journal, pair: Pair) -> None:
    """Settle a call as answered."""
    journal.calls.settle("run-1", [ended(pair)])


def test_no_more_is_under_way_than_the_cap(place: Place) -> None:
    """Whoever asks; what is refused is granted once a call has settled, and says who has them."""
    nightly, analyst = place.open(), place.open()
    first = reserve(nightly, 1, 2, 3, 4, 5, caps=SHARED)
    assert kinds(first) == [GRANTED] * 4 + [BUSY]
    ((_, refused),) = reserve(analyst, 6, caps=SHARED)
    assert refused.kind is BUSY
    assert refused.holder.startswith("process ")
    end(nightly, first[0])
    assert kinds(reserve(analyst, 6, caps=SHARED)) == [GRANTED]
    assert kinds(reserve(nightly, 5, caps=SHARED)) == [BUSY]


def test_what_a_waiting_process_is_owed_is_left_to_it(place: Place) -> None:
    """One that has all gives up a part as its calls settle, however quickly it asks again."""
    nightly, analyst = place.open(), place.open()
    under_way = reserve(nightly, 1, 2, 3, 4, caps=SHARED)
    assert kinds(reserve(analyst, 11, 12, 13, caps=SHARED)) == [BUSY] * 3
    for number, pair in enumerate(under_way[:2], 21):
        end(nightly, pair)
        assert kinds(reserve(nightly, number, caps=SHARED)) == [BUSY]
    assert kinds(reserve(analyst, 11, 12, 13, caps=SHARED)) == [GRANTED, GRANTED, BUSY]
    assert kinds(reserve(nightly, 21, caps=SHARED)) == [BUSY]


def test_what_nobody_waits_for_is_free_for_all(place: Place) -> None:
    """A process that has what it wants, or asks no more for long, keeps nothing from others."""
    nightly, analyst = place.open(), place.open()
    (mine,) = reserve(analyst, 11, caps=SHARED)
    under_way = reserve(nightly, 1, 2, 3, caps=SHARED)
    assert kinds(under_way) == [GRANTED] * 3
    assert kinds(reserve(analyst, 12, caps=SHARED)) == [BUSY]
    end(analyst, mine)
    assert kinds(reserve(nightly, 4, caps=SHARED)) == [BUSY]
    place.clock.now += WISH_LASTS_MICROS
    assert kinds(reserve(nightly, 4, caps=SHARED)) == [GRANTED]


def test_slots_of_a_dead_process_come_back_before_anyone_is_refused(place: Place) -> None:
    """Its calls are in doubt at once, and are under way no more."""
    victim, other = place.open(), place.open()
    assert kinds(reserve(victim, 1, 2, 3, 4, 5, caps=SHARED)) == [GRANTED] * 4 + [BUSY]
    victim.close()
    assert kinds(reserve(other, 11, 12, 13, 14, caps=SHARED)) == [GRANTED] * 4
    with other.engine.connect() as connection:
        doubted = select(func.count()).where(calls.c.state == CallState.IN_DOUBT.value)
        assert connection.execute(doubted).scalar_one() == 4


def test_the_lowest_cap_of_those_at_work_holds(place: Place) -> None:
    """Each would keep room for the other by its own cap, and the lower one would get nothing."""
    wide, narrow = place.open(), place.open()
    most, least = Caps(in_flight=(("karma", 6),)), Caps(in_flight=(("karma", 2),))
    under_way = reserve(wide, 1, 2, 3, 4, 5, 6, caps=most)
    assert kinds(under_way) == [GRANTED] * 6
    got = 0
    for number in range(7, 19):
        end(wide, under_way.pop(0))
        found = reserve(narrow, 100 + got, caps=least)
        got += kinds(found) == [GRANTED]
        under_way += [pair for pair in reserve(wide, number, caps=most) if pair[1].kind is GRANTED]
        if not under_way:
            break
    assert got
    assert len(under_way) + got <= 2
    place.clock.now += WISH_LASTS_MICROS
    place.opened.remove(narrow)
    narrow.close()
    assert kinds(reserve(wide, *range(31, 37), caps=most)).count(GRANTED) == 6 - len(under_way)


def test_a_call_that_is_never_settled_holds_nobody_up_for_good(place: Place) -> None:
    """Its process lives, and lost its database for the moment in which it would have settled it."""
    living, other = place.open(), place.open()
    assert kinds(reserve(living, 1, 2, 3, 4, caps=SHARED)) == [GRANTED] * 4
    assert kinds(reserve(other, 11, caps=SHARED)) == [BUSY]
    place.clock.now += STALE_MICROS
    assert kinds(reserve(other, 11, caps=SHARED)) == [GRANTED]


def test_a_clock_set_back_mutes_nobody(place: Place) -> None:
    """A wish is renewed by it, and one of the future is not kept for ever."""
    nightly, analyst = place.open(), place.open()
    reserve(nightly, 1, 2, 3, 4, caps=SHARED)
    assert kinds(reserve(analyst, 11, caps=SHARED)) == [BUSY]
    place.clock.now -= 3600 * MICROS
    assert kinds(reserve(nightly, 5, caps=SHARED)) == [BUSY]
    with analyst.engine.connect() as connection:
        asked = select(cap_users.c.asked_at).where(cap_users.c.holder == analyst.holders.name)
        before = connection.execute(asked).scalar_one()
    assert kinds(reserve(analyst, 11, caps=SHARED)) == [BUSY]
    with analyst.engine.connect() as connection:
        assert connection.execute(asked).scalar_one() < before


def test_who_is_gone_leaves_nothing_behind(place: Place) -> None:
    """Every run that shares caps has a row; the next one to come removes those of the past."""
    for number in range(3):
        reserve(place.opened[-1] if place.opened else place.open(), number, caps=SHARED)
        place.open()
        place.opened[-2].close()
    last = place.opened[-1]
    reserve(last, 9, caps=SHARED)
    with last.engine.connect() as connection:
        assert connection.execute(select(cap_users.c.holder)).scalars().all() == [last.holders.name]


def test_operations_of_one_family_share_its_cap(place: Place) -> None:
    """And nobody else's: each check has its own."""
    one, other = place.open(), place.open()
    start = asks(1, check="bvn_start")
    finish = asks(2, 3, check="bvn_finish")
    (first,) = one.calls.reserve("run-1", "bvn", start, SHARED, since=1 << 60)
    second, third = other.calls.reserve("run-2", "bvn", finish, SHARED, since=1 << 60)
    assert [first.kind, second.kind, third.kind] == [GRANTED, GRANTED, BUSY]
    assert kinds(reserve(one, 4, caps=SHARED)) == [GRANTED]


def test_who_shares_nothing_is_neither_counted_nor_refused(place: Place) -> None:
    """A run has the cap to itself where it is told so."""
    alone, shared = place.open(), place.open()
    assert kinds(reserve(alone, 1, 2, 3, 4, 5)) == [GRANTED] * 5
    assert kinds(reserve(shared, 11, 12, 13, 14, caps=SHARED)) == [GRANTED] * 4
    assert kinds(reserve(alone, 6)) == [GRANTED]


def test_what_others_ask_for_or_were_answered_takes_no_slot(place: Place) -> None:
    """A run that follows another over the same people gets all that is free for the rest."""
    nightly, analyst = place.open(), place.open()
    first, _ = reserve(analyst, 8, 9, caps=SHARED)
    end(analyst, first)
    asked = asks(8, 9, 1, 2, 3, 4)
    found = nightly.calls.reserve("run-2", "portfolio", asked, SHARED, since=0)
    answered, held = ReservationStatus.ANSWERED, ReservationStatus.HELD
    assert [grant.kind for grant in found] == [answered, held, GRANTED, GRANTED, GRANTED, BUSY]


def test_an_answer_is_found_though_no_slot_is_free_and_no_money_left(place: Place) -> None:
    """What was paid for by another is no more to pay, and ends no lookup."""
    nightly, analyst = place.open(), place.open()
    pairs = reserve(analyst, 1, 2, 3, 4, 5, caps=SHARED)
    end(analyst, pairs[0])
    assert kinds(reserve(analyst, 6, caps=SHARED)) == [GRANTED]
    tight = Caps(run_micro=0, in_flight=SHARED.in_flight)
    found = nightly.calls.reserve("run-2", "portfolio", asks(1, 7), tight, since=0)
    assert [grant.kind for grant in found] == [
        ReservationStatus.ANSWERED,
        ReservationStatus.UNAFFORDABLE,
    ]


def test_operations_of_a_family_share_its_cap_in_one_block_too(place: Place) -> None:
    """What is granted to the first of them counts before the next one is looked at."""
    journal = place.open()
    block = asks(1, check="bvn_start") + asks(2, 3, check="bvn_finish") + asks(4)
    found = journal.calls.reserve("run-1", "bvn", block, SHARED, since=1 << 60)
    assert [grant.kind for grant in found] == [GRANTED, GRANTED, BUSY, GRANTED]


def test_money_is_refused_before_a_slot_is_waited_for(journal: Journal) -> None:
    """What cannot be paid for is not made to wait for others' calls."""
    tight = Caps(run_micro=0, in_flight=(("karma", 1),))
    assert kinds(reserve(journal, 1, caps=SHARED)) == [GRANTED]
    assert kinds(reserve(journal, 2, caps=tight)) == [ReservationStatus.UNAFFORDABLE]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 20)), min_size=1, max_size=6),
    st.integers(1, 12),
)
def test_parts_are_equal_and_nothing_is_unused(have: list[tuple[int, int]], cap: int) -> None:
    """What is free goes to who has the fewest; all of it, where enough is wanted."""
    users = {
        f"p{place}": CapUser(wanted=wanted, since=place, under_way=under_way)
        for place, (under_way, wanted) in enumerate(have)
    }
    got = {name: slots_for(name, users, cap, user.wanted) for name, user in users.items()}
    free = max(0, cap - sum(under_way for under_way, _ in have))
    assert sum(got.values()) == min(free, sum(wanted for _, wanted in have))
    after = {name: user.under_way + got[name] for name, user in users.items()}
    for name, user in users.items():
        assert 0 <= got[name] <= user.wanted
        if got[name]:  # nobody who still wants some is left with fewer
            short = [other for other in users if got[other] < users[other].wanted]
            assert all(after[name] <= after[other] + 1 for other in short)


@settings(max_examples=examples(20), deadline=None)
@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), min_size=10, max_size=50),
    st.integers(5, 30),
)
def test_no_interleaving_of_processes_passes_the_cap(
    cap: int, steps: list[tuple[int, int]], dies_after: int
) -> None:
    """Three processes ask, settle and ask again in any order, and one dies in the middle."""
    caps = Caps(in_flight=(("karma", cap),))
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder) / "home", "")
        openings = [place.open() for _ in range(3)]
        under_way: list[list[Pair]] = [[], [], []]
        number = 0
        for at, (who, wanted) in enumerate(steps):
            if at == dies_after:
                openings[2].close()
                under_way[2] = []
            if at >= dies_after and who == 2:
                continue
            if not wanted and under_way[who]:
                end(openings[who], under_way[who].pop())
            numbers = range(number, number := number + wanted)
            found = reserve(openings[who], *numbers, caps=caps)
            under_way[who] += [pair for pair in found if pair[1].kind is GRANTED]
            assert {*kinds(found)} <= {GRANTED, BUSY}
            assert sum(map(len, under_way)) <= cap
        place.close()
