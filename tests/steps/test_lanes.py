"""A lane, in virtual time: nothing here depends on how fast the machine is."""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nightscreen.calling.lookup_task import RELEASED
from nightscreen.calling.silence import Silence
from nightscreen.calling.stops import Stops
from nightscreen.client.classify import CallOutcome, ChargeStatus
from nightscreen.client.limiter import AdaptiveCap
from nightscreen.client.response_rules import FailureReason, StopScope, StopSignal
from nightscreen.schemas.calls import CallState, Caps, LookupStatus, ReservationStatus
from nightscreen.schemas.checks import IdentityKind, Lookup, Outcome
from nightscreen.schemas.clock import next_day
from nightscreen.schemas.errors import JournalError, NightscreenError, UsageError
from nightscreen.schemas.stops import StopReason
from tests.steps.lane_in_a_test import (
    NAIRA,
    PRICE,
    Bench,
    bench,
    hit,
    lost,
    miss,
    refused,
    rejected,
    stopping,
    task,
)
from tests.steps.virtual_time import VirtualLoop, run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from nightscreen.calling.lookup_task import LookupTask
    from nightscreen.schemas.calls import ReserveRequest

MICROS = 1_000_000


def number_of(made: LookupTask) -> int:
    """Return the number that a lookup was made of."""
    return int(made.asked)


async def ask_all(made: Bench, number: int, check: str = "karma") -> list[LookupTask]:
    """Ask so many lookups and return them as they stand."""
    return await made.lanes[check].make([task(each, check) for each in range(number)])


@pytest.mark.parametrize("cap", [1, 4, 16, 64, 256])
def test_the_cap_is_never_passed_and_the_window_stays_full(cap: int) -> None:
    """No more than the cap are on the wire, and hardly ever fewer."""

    async def main(loop: VirtualLoop) -> None:
        made = bench(loop, cap=cap)
        tasks = await ask_all(made, 20 * cap)
        assert made.service.peak == cap
        assert made.service.busy_s / (cap * loop.time()) > 0.98
        assert {each.status for each in tasks} == {LookupStatus.FREE}

    run(main)


def test_a_call_does_not_wait_for_answers_that_came_beside_the_last_one() -> None:
    """Else calls that once went out together would do so for good, each waiting for all others."""
    heard: list[str] = []

    def reply(*_: object) -> CallOutcome:
        heard.append("answered")
        return miss()

    async def main(loop: VirtualLoop) -> None:
        made = bench(loop, reply, cap=3)

        def send(lookup: Lookup) -> Awaitable[CallOutcome]:
            heard.append("sent")
            return made.service(lookup)

        made.lane._send = send
        await ask_all(made, 6)
        assert heard == ["sent"] * 3 + ["answered", "sent"] * 3 + ["answered"] * 3

    run(main)


def test_no_more_is_reserved_than_the_floor_lets_send() -> None:
    """Until a balance is known there is one call at a time, whatever the cap."""

    async def main(loop: VirtualLoop) -> None:
        shared = Caps(in_flight=(("karma", 50),))
        made = bench(loop, lambda *_: hit(), cap=50, caps=shared, floor_micro=1)
        await ask_all(made, 100)
        assert set(made.store.blocks[1:]) == {1}

    run(main)


def test_a_call_waiting_to_retry_holds_no_slot() -> None:
    """While refused lookups wait, others use the whole cap."""

    def reply(lookup: Lookup, attempt: int) -> CallOutcome:
        early = int(lookup.identity) < 4
        return refused(60.0) if early and attempt == 1 else miss()

    async def main(loop: VirtualLoop) -> None:
        made = bench(loop, reply, cap=4)
        made.lane._cap.on_result = lambda **_: None  # type: ignore[method-assign]  # no pause
        first = asyncio.ensure_future(ask_all(made, 204))
        await asyncio.sleep(50)
        assert made.progress.free == 200
        assert made.service.flying == 0
        assert {each.status for each in await first} == {LookupStatus.FREE}

    run(main)


def test_retry_after_pauses_the_whole_check() -> None:
    """Nothing is sent until the service wants to hear of us again."""

    def reply(_: Lookup, attempt: int) -> CallOutcome:
        return refused(30.0) if attempt == 1 and not paused else miss()

    paused: list[float] = []

    async def main(loop: VirtualLoop) -> None:
        made = bench(loop, reply, cap=1, latency_s=1)
        waiting = asyncio.ensure_future(ask_all(made, 5))
        await asyncio.sleep(1.5)
        paused.append(loop.time())
        await waiting
        times = [at for at, _ in made.service.sent]
        assert times[0] == 0
        assert min(times[1:]) >= 31
        assert made.progress.free == 5

    run(main)


def test_two_shards_with_the_same_lookup_share_one_call() -> None:
    """A lookup under way is joined by whoever needs it too."""

    async def main(loop: VirtualLoop) -> None:
        made = bench(loop, lambda *_: hit())
        both = await asyncio.gather(ask_all(made, 10), ask_all(made, 10))
        assert all(each.status is LookupStatus.PAID for tasks in both for each in tasks)
        assert len(made.service.sent) == 10
        assert made.store.spent == 10 * PRICE

    run(main)


def test_a_lookup_twice_in_one_shard_is_one_call() -> None:
    """The same question twice in a list is asked once and both are reported."""

    async def main(loop: VirtualLoop) -> None:
        made = bench(loop)
        tasks = await made.lane.make([task(1), task(1), task(2)])
        assert [each.status for each in tasks] == [LookupStatus.FREE] * 3
        assert len(made.service.sent) == 2

    run(main)


def test_who_was_cancelled_and_comes_back_joins_the_calls() -> None:
    """Who is cancelled leaves the calls to themselves; coming back repeats none."""

    async def main(loop: VirtualLoop) -> None:
        made = bench(loop, lambda *_: hit(), cap=2)
        asked = [task(number) for number in range(10)]
        first = asyncio.ensure_future(made.lane.make(asked))
        await asyncio.sleep(0.15)
        first.cancel()
        await asyncio.wait([first])
        assert first.cancelled()
        unfinished = [number_of(each) for each in asked if each.status is LookupStatus.WAITING]
        await made.lane.make(task(number) for number in unfinished)
        assert all(each.status is LookupStatus.PAID for each in asked)
        assert len(made.service.sent) == 10

    run(main)


def test_a_cancelled_caller_leaves_the_window_sound() -> None:
    """The window finishes what was handed in, and the journal is whole."""

    async def main(loop: VirtualLoop) -> None:
        made = bench(loop, lambda *_: hit(), cap=2)
        first = asyncio.ensure_future(ask_all(made, 6))
        await asyncio.sleep(0.05)
        first.cancel()
        await made.lane.drain()
        assert made.progress.paid == 6
        assert not made.store.open
        assert made.store.reserved == 0
        assert made.lane.open == 0

    run(main)


def test_attempts_are_bounded_resends_included() -> None:
    """A lookup whose answer is always lost is sent so many times and no more."""

    async def main(loop: VirtualLoop) -> None:
        made = bench(loop, lambda *_: lost(), attempts=3)
        tasks = await ask_all(made, 5)
        assert set(made.service.attempts.values()) == {3}
        assert {each.status for each in tasks} == {LookupStatus.IN_DOUBT}
        assert made.store.reserved == 15 * PRICE
        finals = [each.final for each in made.store.settled]
        assert finals.count(True) == 5

    run(main)


def test_a_lookup_answered_after_a_doubt_is_paid() -> None:
    """The earlier attempt stays reserved, the lookup is answered."""

    async def main(loop: VirtualLoop) -> None:
        made = bench(loop, lambda _, attempt: lost() if attempt == 1 else hit())
        (one,) = await ask_all(made, 1)
        assert one.status is LookupStatus.PAID
        assert made.store.spent == PRICE
        assert made.store.reserved == PRICE

    run(main)


def test_a_rejected_lookup_fails_at_once() -> None:
    """A 400 is not tried again."""

    async def main(loop: VirtualLoop) -> None:
        made = bench(loop, lambda *_: rejected())
        tasks = await ask_all(made, 3)
        assert {each.status for each in tasks} == {LookupStatus.FAILED}
        assert len(made.service.sent) == 3

    run(main)


@pytest.mark.parametrize(
    ("stop", "scope"),
    [
        (StopSignal.BALANCE, StopScope.RUN),
        (StopSignal.TEST_MODE, StopScope.RUN),
        (StopSignal.ADDRESS, StopScope.RUN),
    ],
)
def test_a_stop_that_lookups_agree_on_lets_everything_go(
    stop: StopSignal, scope: StopScope
) -> None:
    """Where lookups agree nothing new is sent, and every intent is given back."""

    def reply(lookup: Lookup, _: int) -> CallOutcome:
        if lookup.check == "karma" and int(lookup.identity) >= 6:
            return stopping(stop, scope)
        return hit()

    async def main(loop: VirtualLoop) -> None:
        made = bench(loop, reply, cap=2, checks=("karma", "ecosystem"))
        karma, ecosystem = await asyncio.gather(ask_all(made, 100), ask_all(made, 100, "ecosystem"))
        stopped = "outage" if stop is StopSignal.ADDRESS else stop.value
        assert stopped in {made.stops.reason, *made.stops.checks.values()}
        assert made.service.attempts["00000000010"] <= 1
        waiting = [each for each in (*karma, *ecosystem) if each.status is LookupStatus.WAITING]
        failed = [each for each in karma if each.status is LookupStatus.FAILED]
        assert len(failed) <= 3
        paid = [each for each in (*karma, *ecosystem) if each.status is LookupStatus.PAID]
        assert len(waiting) + len(failed) + len(paid) == 200
        assert made.store.reserved == 0
        assert made.wallet.bound_micro == 0

    run(main)


def test_a_stop_of_one_check_leaves_the_others() -> None:
    """A refused key for one operation does not stop the rest; all of them refused stop the run."""

    def reply(lookup: Lookup, _: int) -> CallOutcome:
        return stopping(StopSignal.AUTH, StopScope.CHECK) if lookup.check == "karma" else hit()

    async def main(loop: VirtualLoop) -> None:
        made = bench(loop, reply, cap=2, checks=("karma", "ecosystem"))
        karma, ecosystem = await asyncio.gather(ask_all(made, 50), ask_all(made, 50, "ecosystem"))
        assert {each.status for each in karma[:2]} == {LookupStatus.FAILED}
        assert {each.status for each in karma[2:]} == {LookupStatus.WAITING}
        assert {each.status for each in ecosystem} == {LookupStatus.PAID}
        assert made.stops.reason is None
        assert made.stops.checks == {"karma": "auth"}
        made.stops.stop_check("ecosystem", "auth")
        assert made.stops.reason == "auth"

    run(main)


@pytest.mark.parametrize("cap", [1, 8, 50])
def test_no_more_is_reserved_ahead_than_the_present_cap(cap: int) -> None:
    """What a crash leaves in doubt is what was in flight, and one block that was ready."""
    most: list[int] = []

    async def main(loop: VirtualLoop) -> None:
        def reply(*_: object) -> CallOutcome:
            most.append(len(made.store.open))
            return hit()

        made = bench(loop, reply, cap=cap)
        await ask_all(made, 10 * cap)
        assert max(made.store.blocks) <= cap
        assert max(most) <= 2 * cap

    run(main)


def test_released_intents_are_given_back() -> None:
    """Intents committed ahead and not sent are settled as released when the run stops."""

    async def main(loop: VirtualLoop) -> None:
        made = bench(loop, cap=8)
        waiting = asyncio.ensure_future(ask_all(made, 100))
        await asyncio.sleep(0.05)
        made.stops.stop(StopReason.CANCELLED)
        await waiting
        await made.lane.drain()
        released = [each for each in made.store.settled if each.trouble == RELEASED]
        assert released
        assert {each.state for each in released} == {CallState.NOT_SENT}
        assert {each.sent_at for each in released} == {None}
        assert not made.store.open
        assert made.store.reserved == 0
        assert len(made.service.sent) == 8

    run(main)


def test_nothing_is_sent_after_the_deadline_and_nothing_spins() -> None:
    """At the deadline the window lets go; waiting for the last answers costs no turns."""

    async def main(loop: VirtualLoop) -> None:
        stops = Stops(deadline_at=loop.micros() + 10 * MICROS)
        made = bench(loop, cap=4, latency_s=3, stops=stops)
        tasks = await ask_all(made, 100)
        assert stops.reason == StopReason.DEADLINE
        assert max(at for at, _ in made.service.sent) < 10
        assert len(made.service.sent) == 16
        assert sum(each.status is LookupStatus.FREE for each in tasks) == 16
        assert loop.steps < 500

    run(main)


def test_the_breaker_opens_probes_one_at_a_time_and_closes_on_an_answer() -> None:
    """During an outage single calls are let through; the first answer lets all through again."""
    back_at = 100.0

    async def main(loop: VirtualLoop) -> None:
        def reply(*_: object) -> CallOutcome:
            return miss() if loop.time() >= back_at else lost(FailureReason.CUT)

        stops = Stops(silence=Silence(after=10))
        made = bench(loop, reply, cap=8, attempts=1000, stops=stops)
        tasks = await ask_all(made, 50)
        assert {each.status for each in tasks} == {LookupStatus.FREE}
        probes = [at for at, _ in made.service.sent if 5 < at < back_at]
        gaps = [late - early for early, late in itertools.pairwise(probes)]
        assert probes
        assert min(gaps) >= 15
        assert stops.silence.opened_at is None
        assert stops.reason is None
        assert loop.steps < 5000

    run(main)


def test_the_breaker_gives_up_after_the_set_time() -> None:
    """A service that stays silent ends the run with `outage`, every lookup resolved."""

    async def main(loop: VirtualLoop) -> None:
        stops = Stops(silence=Silence(120, after=10))
        made = bench(
            loop,
            lambda *_: lost(),
            cap=4,
            attempts=1000,
            stops=stops,
            checks=("karma", "ecosystem"),
        )
        await asyncio.gather(ask_all(made, 30), ask_all(made, 30, "ecosystem"))
        assert stops.reason == StopReason.OUTAGE
        assert 120 <= loop.time() < 150
        assert made.wallet.bound_micro == 0

    run(main)


def test_probes_are_single_over_all_checks() -> None:
    """While the breaker is open there is one call on the wire in the whole run."""

    async def main(loop: VirtualLoop) -> None:
        stops = Stops(silence=Silence(300, after=6))
        checks = ("karma", "ecosystem")
        made = bench(loop, lambda *_: lost(), cap=4, attempts=1000, stops=stops, checks=checks)
        asked = asyncio.gather(ask_all(made, 30), ask_all(made, 30, "ecosystem"))
        await asyncio.sleep(30)
        made.service.peak = made.service.flying
        await asked
        assert made.service.peak <= 1

    run(main)


def test_the_quota_stops_its_check() -> None:
    """The day's number is asked, not one more, and the check stops with `quota`."""

    async def main(loop: VirtualLoop) -> None:
        caps = Caps(day_calls=(("karma", 20),))
        made = bench(loop, caps=caps)
        tasks = await ask_all(made, 50)
        assert len(made.service.sent) == 20
        assert made.stops.checks == {"karma": "quota"}
        assert sum(each.status is LookupStatus.WAITING for each in tasks) == 30

    run(main)


def test_a_lookup_held_by_another_run_waits_and_takes_its_answer() -> None:
    """While another run makes the same call this one waits, then reuses what was answered."""
    answered_at = 5.0

    async def main(loop: VirtualLoop) -> None:
        def grants(ask: ReserveRequest) -> ReservationStatus | None:
            if ask.subject != task(0).subject:
                return None
            return (
                ReservationStatus.ANSWERED if loop.time() >= answered_at else ReservationStatus.HELD
            )

        made = bench(loop)
        made.store.grants = grants
        tasks = await ask_all(made, 3)
        statuses = [each.status for each in tasks]
        assert statuses == [LookupStatus.REUSED, LookupStatus.FREE, LookupStatus.FREE]
        assert len(made.service.sent) == 2
        assert answered_at <= loop.time() < answered_at + 1

    run(main)


def test_what_the_cap_does_not_afford_is_not_sent() -> None:
    """The cap pays for some; the rest is left waiting, in order."""

    async def main(loop: VirtualLoop) -> None:
        made = bench(loop, lambda *_: hit(), caps=Caps(run_micro=7 * PRICE + 1), cap=3)
        tasks = await ask_all(made, 20)
        assert made.store.spent == 7 * PRICE
        assert [each.status for each in tasks[:7]] == [LookupStatus.PAID] * 7
        assert {each.status for each in tasks[7:]} == {LookupStatus.WAITING}

    run(main)


def test_a_resend_that_does_not_fit_leaves_the_lookup_in_doubt() -> None:
    """A lost call is sent again only while the cap allows."""

    async def main(loop: VirtualLoop) -> None:
        made = bench(loop, lambda *_: lost(), caps=Caps(run_micro=2 * PRICE))
        (one,) = await ask_all(made, 1)
        assert one.status is LookupStatus.IN_DOUBT
        assert len(made.service.sent) == 2

    run(main)


@pytest.mark.parametrize("phase", ["reserve", "settle"])
@pytest.mark.parametrize("error", [JournalError("the disk is full"), RuntimeError("no thread")])
def test_a_broken_journal_stops_everything_and_is_told(phase: str, error: Exception) -> None:
    """Nothing more is sent, nobody hangs, every caller gets the error."""

    async def main(loop: VirtualLoop) -> None:
        made = bench(loop, lambda *_: hit(), cap=4, checks=("karma", "ecosystem"))
        asked = [
            asyncio.ensure_future(ask_all(made, 100)),
            asyncio.ensure_future(ask_all(made, 100, "ecosystem")),
        ]
        await asyncio.sleep(0.55)
        setattr(made.store, f"break_{phase}", error)
        before = len(made.service.sent)
        told = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(each, NightscreenError) for each in told)
        assert len(made.service.sent) - before <= 16
        assert made.lane.open == 0
        assert made.wallet.bound_micro == 0
        await made.lane.drain()

    run(main)


def test_outcomes_a_full_disk_refused_are_written_once_there_is_room() -> None:
    """An answer that was paid for is tried once more before the run ends."""

    async def main(loop: VirtualLoop) -> None:
        made = bench(loop, lambda *_: hit(), cap=4)
        made.store.break_settle = JournalError("the disk is full")
        with pytest.raises(JournalError, match="full"):
            await ask_all(made, 4)
        made.store.break_settle = None
        await made.lane.drain()
        assert len(made.store.settled) == 4
        assert made.store.spent == 4 * PRICE

    run(main)


def test_a_call_that_cannot_be_made_is_told_to_every_caller() -> None:
    """A fault of ours in sending stops the window instead of hanging it."""

    def reply(lookup: Lookup, _: int) -> CallOutcome:
        if int(lookup.identity) == 3:
            raise UsageError("no request can be built")
        return miss()

    async def main(loop: VirtualLoop) -> None:
        made = bench(loop, reply, cap=2)
        with pytest.raises(UsageError):
            await ask_all(made, 50)
        assert len(made.service.sent) <= 6
        assert made.lane.open == 0

    run(main)


def test_a_fault_inside_the_window_leaves_nobody_waiting() -> None:
    """Even a mistake of the window's own reaches the caller."""

    async def main(loop: VirtualLoop) -> None:
        made = bench(loop)
        made.lane._bring_back_due = lambda: 1 / 0  # type: ignore[method-assign, assignment]
        with pytest.raises(NightscreenError, match="ZeroDivisionError"):
            await ask_all(made, 5)

    run(main)


def test_the_balance_floor_is_never_broken() -> None:
    """With answers that overtake each other the wallet never falls under the floor."""
    wallet = [1000 * NAIRA]

    def reply(lookup: Lookup, _: int) -> CallOutcome:
        wallet[0] -= PRICE
        lowest.append(wallet[0])
        return hit(balance=wallet[0])

    lowest: list[int] = []

    async def main(loop: VirtualLoop) -> None:
        made = bench(loop, reply, cap=16, floor_micro=305 * NAIRA)
        stops = made.stops
        tasks = await ask_all(made, 200)
        assert min(lowest) >= 305 * NAIRA
        assert min(lowest) < 305 * NAIRA + 3 * PRICE
        assert stops.reason == StopReason.BALANCE
        assert sum(each.status is LookupStatus.WAITING for each in tasks) >= 131

    run(main)


def test_free_answers_do_not_end_a_run_at_the_floor() -> None:
    """Calls in flight that turn out free make room again: the run waits for them."""

    async def main(loop: VirtualLoop) -> None:
        made = bench(loop, lambda *_: miss(), cap=8, floor_micro=100 * NAIRA)
        made.wallet.least_micro = 125 * NAIRA
        stops = made.stops
        tasks = await ask_all(made, 40)
        assert {each.status for each in tasks} == {LookupStatus.FREE}
        assert made.service.peak == 2
        assert stops.reason is None

    run(main)


def test_a_risen_price_is_reserved_for_all_that_is_sent_later() -> None:
    """Intents made at the old price are given back; only what was in flight exceeds the cap."""
    rise_at, cap = 1.0, 4

    async def main(loop: VirtualLoop) -> None:
        def reply(*_: object) -> CallOutcome:
            return hit(PRICE if loop.time() < rise_at else 3 * PRICE)

        made = bench(loop, reply, cap=cap, caps=Caps(run_micro=100 * PRICE))
        await ask_all(made, 300)
        excess = made.store.spent - 100 * PRICE
        assert excess <= cap * 2 * PRICE
        assert made.wallet.excess_micro <= cap * 2 * PRICE
        assert made.wallet.excess_micro > 0
        assert any("rose from ₦10.00 to ₦30.00" in each for each in made.stops.notices)
        late = [each for each in made.store.settled if each.sent_at and each.cost_micro]
        assert all(each.ask.worst_micro == 3 * PRICE for each in late[-10:])

    run(main)


def test_too_many_failures_stop_the_run() -> None:
    """Once enough is done, a share of failures above what is tolerated stops the run."""

    def reply(lookup: Lookup, _: int) -> CallOutcome:
        return rejected() if int(lookup.identity) % 10 == 0 else miss()

    async def main(loop: VirtualLoop) -> None:
        stops = Stops(tolerated_failure_pct=5)
        made = bench(loop, reply, stops=stops)
        await ask_all(made, 1000)
        assert stops.reason == StopReason.FAILURES
        assert 200 <= made.progress.done <= 220

    run(main)


def test_feeding_is_lazy() -> None:
    """Whatever is handed in, only a window's worth is intended or in flight at a time."""

    async def main(loop: VirtualLoop) -> None:
        made = bench(loop, cap=8)
        most: list[int] = []
        asked = asyncio.ensure_future(ask_all(made, 5000))
        while not asked.done():
            await asyncio.sleep(0.35)
            most.append(len(made.store.open))
        assert max(most) <= 8 + 4 + 8
        assert max(made.store.blocks) <= 8

    run(main)


def test_nothing_is_left_behind() -> None:
    """After stops, cancellations and faults no task and no future is left to complain."""

    async def main(loop: VirtualLoop) -> None:
        made = bench(loop, lambda _, attempt: lost() if attempt < 3 else hit(), cap=4)
        asked = [asyncio.ensure_future(ask_all(made, 40)) for _ in range(3)]
        await asyncio.sleep(0.25)
        asked[0].cancel()
        made.stops.stop(StopReason.CANCELLED)
        await asyncio.gather(*asked, return_exceptions=True)
        await made.lane.drain()
        made.book.close()

    run(main)
    gc.collect()


def test_retries_that_fall_due_together_keep_their_order() -> None:
    """Lookups put off together come back in the order they had."""

    async def main(loop: VirtualLoop) -> None:
        held = {"on": True}
        made = bench(loop, cap=1)
        made.store.grants = lambda _: ReservationStatus.HELD if held["on"] else None
        asked = asyncio.ensure_future(ask_all(made, 6))
        await asyncio.sleep(3.2)
        held["on"] = False
        await asked
        assert [int(identity) for _, identity in made.service.sent] == sorted(range(6))

    run(main)


def test_a_lookup_is_never_shown() -> None:
    """A lookup in a log or a traceback names no person."""
    assert "123" not in repr(Lookup("karma", IdentityKind.BVN, "22123456789"))


# --- what makes further calls useless ---


@pytest.mark.parametrize(
    "stop", [StopSignal.AUTH, StopSignal.ADDRESS, StopSignal.TEST_MODE, StopSignal.BALANCE]
)
def test_single_refusals_among_answers_stop_nothing(stop: StopSignal) -> None:
    """However many in a night: each is the failure of its lookup, and the window opens again."""
    scope = StopScope.CHECK if stop is StopSignal.AUTH else StopScope.RUN

    async def main(loop: VirtualLoop) -> None:
        def reply(lookup: Lookup, _: int) -> CallOutcome:
            return stopping(stop, scope) if int(lookup.identity) % 10 == 7 else hit()

        made = bench(loop, reply, cap=8)
        tasks = await ask_all(made, 200)
        assert made.stops.reason is None
        assert not made.stops.checks
        assert [number_of(each) for each in tasks if each.status is LookupStatus.FAILED] == [
            *range(7, 200, 10)
        ]
        assert made.service.peak == 8

    run(main)


def test_a_burst_of_refusals_is_one_witness() -> None:
    """Calls in flight at one bad moment agree by chance; those sent after it decide."""

    async def main(loop: VirtualLoop) -> None:
        def reply(*_: object) -> CallOutcome:
            bad = 1.0 <= loop.time() < 1.15
            return stopping(StopSignal.AUTH, StopScope.CHECK) if bad else hit()

        made = bench(loop, reply, cap=8)
        tasks = await ask_all(made, 200)
        assert made.stops.reason is None
        assert 8 <= sum(each.status is LookupStatus.FAILED for each in tasks) <= 10

    run(main)


@pytest.mark.parametrize(("balance", "sent"), [(PRICE - 1, 4), (100 * PRICE, 6), (None, 6)])
def test_a_refusal_for_want_of_money_counts_at_once_where_the_balance_agrees(
    balance: int | None, sent: int
) -> None:
    """What other answers said of the wallet is a witness; without it lookups must agree."""

    async def main(loop: VirtualLoop) -> None:
        def reply(lookup: Lookup, _: int) -> CallOutcome:
            if int(lookup.identity) >= 3:
                return stopping(StopSignal.BALANCE, StopScope.RUN)
            return hit(balance=balance)

        made = bench(loop, reply, cap=1)
        await ask_all(made, 20)
        assert made.stops.reason == StopReason.BALANCE
        assert len(made.service.sent) == sent

    run(main)


@pytest.mark.parametrize("cap", [4, 40])
def test_the_same_fault_from_the_start_stops_a_check_after_a_handful(cap: int) -> None:
    """Five lookups, one at a time once there is doubt; others may have been in flight before."""

    async def main(loop: VirtualLoop) -> None:
        same = replace(lost(FailureReason.OVERLOAD), status=500, fault="the same")
        made = bench(loop, lambda *_: same, cap=cap)
        made.lanes["karma"]._cap = AdaptiveCap(cap)
        tasks = await ask_all(made, 300)
        assert made.stops.checks == {"karma": "outage"}
        assert len(made.service.sent) <= 5 + max(4, cap // 4)
        assert sum(each.attempts for each in tasks) == len(made.service.sent)
        assert 60 < loop.time() < 120
        assert any("same fault" in each for each in made.stops.notices)

    run(main)


def test_faults_that_differ_and_faults_after_an_answer_are_tried_again() -> None:
    """A service that fails now and then, whatever it says, is no reason to stop."""

    async def main(loop: VirtualLoop) -> None:
        def reply(lookup: Lookup, attempt: int) -> CallOutcome:
            bad = replace(lost(FailureReason.OVERLOAD), status=500, fault="the same")
            return bad if attempt == 1 and int(lookup.identity) else miss()

        made = bench(loop, reply, cap=4)
        tasks = await ask_all(made, 60)
        assert {each.status for each in tasks} == {LookupStatus.FREE}

    run(main)


# --- nothing waits for ever ---

GIVE_UP_S = 600


def waiting_bench(loop: VirtualLoop, reply: Callable[[Lookup, int], CallOutcome]) -> Bench:
    """Return a window whose run gives up after ten minutes without an answer."""
    return bench(loop, reply, stops=Stops(silence=Silence(GIVE_UP_S)), attempts=20)


@pytest.mark.parametrize("retry_after_s", [None, 5.0, 3600.0])
def test_a_service_that_only_asks_to_wait_is_given_up(retry_after_s: float | None) -> None:
    """`Retry-After` or 503 for ever: ten minutes without an answer end the run, and it says why."""

    async def main(loop: VirtualLoop) -> None:
        made = waiting_bench(loop, lambda *_: refused(retry_after_s))
        tasks = await ask_all(made, 297)
        assert made.stops.reason == StopReason.OUTAGE
        assert GIVE_UP_S <= loop.time() < GIVE_UP_S + 70
        assert sum(each.status is LookupStatus.WAITING for each in tasks) > 100
        (notice,) = made.stops.notices
        assert "the service" in notice
        assert made.store.reserved == 0

    run(main)


@pytest.mark.parametrize("attempts", [1, 5])
def test_lookups_that_are_never_answered_leave_the_others_to_be_asked(attempts: int) -> None:
    """A row of lookups that fill the window and always fail is no outage: those behind get through.

    Once others are answered, the failing ones use up their attempts and end.
    """

    async def main(loop: VirtualLoop) -> None:
        def reply(lookup: Lookup, _: int) -> CallOutcome:
            return refused() if 20 <= int(lookup.identity) < 40 else miss()

        stops = Stops(silence=Silence(GIVE_UP_S))
        made = bench(loop, reply, stops=stops, attempts=attempts, cap=4)
        tasks = await ask_all(made, 200)
        assert stops.reason is None
        statuses = [each.status for each in tasks]
        assert statuses[20:40] == [LookupStatus.FAILED] * 20
        assert {*statuses[:20], *statuses[40:]} == {LookupStatus.FREE}

    run(main)


def test_the_last_customer_who_is_never_answered_is_no_outage() -> None:
    """Their identifiers are one witness: the lookups fail, and the run is completed."""

    async def main(loop: VirtualLoop) -> None:
        def reply(lookup: Lookup, _: int) -> CallOutcome:
            return refused() if int(lookup.identity) >= 96 else miss()

        stops = Stops(silence=Silence(GIVE_UP_S))
        made = bench(loop, reply, stops=stops, attempts=2, cap=4)
        asked = [replace(task(each), row=min(each, 96)) for each in range(100)]
        tasks = await made.lanes["karma"].make(asked)
        assert stops.reason is None
        assert [each.status for each in tasks[96:]] == [LookupStatus.FAILED] * 4

    run(main)


def test_a_lookup_that_a_stopped_process_holds_is_given_up() -> None:
    """All else is asked; then ten minutes, and the run says what it waited for."""

    async def main(loop: VirtualLoop) -> None:
        made = waiting_bench(loop, lambda *_: miss())
        made.store.grants = lambda ask: (
            ReservationStatus.HELD if ask.subject == task(3).subject else None
        )
        tasks = await ask_all(made, 50)
        assert made.stops.reason == StopReason.OUTAGE
        assert sum(each.status is LookupStatus.FREE for each in tasks) == 49
        assert GIVE_UP_S <= loop.time() < GIVE_UP_S + 10
        assert "an answer that another process asks for" in made.stops.notices[0]

    run(main)


def test_answers_now_and_then_keep_a_run_going() -> None:
    """Every answer begins the time anew, whichever check it is of."""

    async def main(loop: VirtualLoop) -> None:
        last = [0.0]

        def reply(*_: object) -> CallOutcome:
            if loop.time() - last[0] < 500:
                return refused(60)
            last[0] = loop.time()
            return miss()

        made = waiting_bench(loop, reply)
        tasks = await ask_all(made, 6)
        assert made.stops.reason is None
        assert {each.status for each in tasks} <= {LookupStatus.FREE, LookupStatus.FAILED}
        assert loop.time() > GIVE_UP_S

    run(main)


@pytest.mark.parametrize("moved_s", [-7200, 7200])
def test_a_wall_clock_that_is_set_changes_no_wait(moved_s: int) -> None:
    """Probes and giving up go by a clock that nobody sets."""

    async def main(loop: VirtualLoop) -> None:
        made = waiting_bench(loop, lambda *_: lost())
        real = loop.micros
        made.lane._clock = lambda: real() + (moved_s * MICROS if loop.time() > 60 else 0)
        await ask_all(made, 200)
        assert made.stops.reason == StopReason.OUTAGE
        assert GIVE_UP_S <= loop.time() < GIVE_UP_S + 70

    run(main)


def test_a_paused_check_gives_its_intents_back() -> None:
    """What was reserved ahead is free for others while nothing may be sent, and asked later."""

    async def main(loop: VirtualLoop) -> None:
        def reply(*_: object) -> CallOutcome:
            return refused(120) if loop.time() < 1 else miss()

        made = bench(loop, reply, cap=8)
        asked = asyncio.ensure_future(ask_all(made, 100))
        await asyncio.sleep(60)
        assert made.store.reserved == 0
        assert not made.store.open
        assert made.wallet.bound_micro == 0
        tasks = await asked
        assert {each.status for each in tasks} == {LookupStatus.FREE}

    run(main)


def test_the_quota_comes_back_with_the_next_day() -> None:
    """Used up before noon in Lagos, asked on after it."""

    async def main(loop: VirtualLoop) -> None:
        caps = Caps(day_calls=(("karma", 20),))
        made = bench(loop, caps=caps, checks=("karma", "ecosystem"))
        first = await ask_all(made, 50)
        assert made.stops.checks == {"karma": "quota"}
        left = [task(number_of(each)) for each in first if each.status is LookupStatus.WAITING]
        made.store.calls = 0
        made.stops.renew_quotas(loop.micros())
        assert made.stops.checks
        loop.now_s += (next_day(loop.micros()) - loop.micros()) / MICROS
        made.stops.renew_quotas(loop.micros())
        assert not made.stops.checks
        again = await made.lane.make(left)
        assert sum(each.status is LookupStatus.FREE for each in again) == 20

    run(main)


@pytest.mark.parametrize("cost", [None, PRICE])
@pytest.mark.parametrize(("every", "stopped"), [(1, True), (2, False)])
def test_three_customers_in_a_row_that_cannot_be_read_are_an_outage(
    every: int, cost: int | None, *, stopped: bool
) -> None:
    """A readable answer between keeps the check going; resends of one customer tell nothing new."""
    verdict = ChargeStatus.IN_DOUBT if cost is None else ChargeStatus.UNREADABLE
    unread = CallOutcome(
        verdict,
        outcome=None if cost is None else Outcome.UNREADABLE,
        trouble=FailureReason.UNREADABLE,
        retry=cost is None,
        cost_micro=cost,
        body=b"<html>",
    )

    async def night(loop: VirtualLoop) -> Bench:
        made = bench(
            loop, lambda lookup, _: hit() if int(lookup.identity) % every else unread, cap=1
        )
        tasks = [task(number) for number in range(12)]
        for each in tasks[:2]:
            each.row = 100
        await made.lane.make(tasks)
        await made.lane.drain()
        return made

    made = run(night)
    counted = Counter(identity for _, identity in made.service.sent)
    assert made.stops.checks == ({"karma": "outage"} if stopped else {})
    if stopped:
        assert len(counted) == 4
        assert [check for check, _ in made.stops.unread_outages()] == ["karma"]
    else:
        assert sorted(counted.values()) == [1] * 6 + [1 if cost else 2] * 6
        assert made.stops.unread_outages() == []
