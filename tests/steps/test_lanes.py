"""A lane, in virtual time: nothing here depends on how fast the machine is."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from nightscreen.calling.lookup_task import RELEASED
from nightscreen.calling.silence import Silence
from nightscreen.calling.stops import Stops
from nightscreen.client.limiter import AdaptiveCap
from nightscreen.client.response_rules import FailureReason
from nightscreen.schemas.calls import CallState, Caps, LookupStatus, ReservationStatus
from nightscreen.schemas.clock import MICROS
from nightscreen.schemas.errors import NightscreenError, UsageError
from nightscreen.schemas.stops import StopReason
from tests.steps.lane_in_a_test import (
    PRICE,
    Bench,
    bench,
    hit,
    lost,
    miss,
    refused,
    rejected,
    task,
)
from tests.steps.virtual_time import VirtualLoop, run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from nightscreen.calling.lookup_task import LookupTask
    from nightscreen.client.classify import CallOutcome
    from nightscreen.schemas.calls import ReserveRequest
    from nightscreen.schemas.requests import Request

FREE, PAID, WAITING = LookupStatus.FREE, LookupStatus.PAID, LookupStatus.WAITING
FAILED, IN_DOUBT = LookupStatus.FAILED, LookupStatus.IN_DOUBT


def number_of(made: LookupTask) -> int:
    """Return the number that a lookup was made of."""
    return int(made.asked)


async def ask_all(made: Bench, number: int, check: str = "karma") -> list[LookupTask]:
    """Ask so many lookups and return them as they stand."""
    return await made.lanes[check].make([task(each, check) for each in range(number)])


def asked(
    number: int,
    reply: Callable[[Request, int], CallOutcome] = lambda *_: miss(),
    *,
    at: Callable[[float], CallOutcome] | None = None,
    first: Callable[[Bench], object] = lambda _: None,
    **options: Any,  # noqa: ANN401 - as `bench` has them
) -> tuple[Bench, list[LookupTask]]:
    """Ask so many lookups of each check to their end; return the bench, and them as they stand.

    Args:
        number: of lookups a check.
        reply: what the n-th attempt at a lookup comes to.
        at: the same by the instant, in place of `reply`.
        first: called before the first is asked.
        options: as `bench` has them.
    """

    async def main(loop: VirtualLoop) -> tuple[Bench, list[LookupTask]]:
        answers = reply if at is None else lambda *_: at(loop.time())
        made = bench(loop, answers, **options)
        first(made)
        checks = await asyncio.gather(*(ask_all(made, number, check) for check in made.lanes))
        return made, list(itertools.chain(*checks))

    return run(main)


def in_time(
    main: Callable[[Bench], Coroutine[Any, Any, None]],
    reply: Callable[[Request, int], CallOutcome] = lambda *_: miss(),
    **options: Any,  # noqa: ANN401 - as `bench` has them
) -> None:
    """Run a test that does something while its lookups are asked."""
    run(lambda loop: main(bench(loop, reply, **options)))


def statuses(tasks: list[LookupTask]) -> set[LookupStatus]:
    """Return how lookups stand."""
    return {each.status for each in tasks}


def number_in(tasks: list[LookupTask], status: LookupStatus) -> int:
    """Return how many lookups stand so."""
    return sum(each.status is status for each in tasks)


# --- the cap ---


@pytest.mark.parametrize("cap", [1, 4, 16, 64, 256])
def test_the_cap_is_never_passed_and_the_lane_stays_full(cap: int) -> None:
    """No more than the cap are on the wire, and hardly ever fewer."""
    made, tasks = asked(20 * cap, cap=cap)
    assert made.service.peak == cap
    assert made.service.busy_s / (cap * made.loop.time()) > 0.98
    assert statuses(tasks) == {FREE}


def test_a_call_does_not_wait_for_answers_that_came_beside_the_last_one() -> None:
    """Else calls that once went out together would do so for good, each waiting for all others."""
    heard: list[str] = []

    def reply(*_: object) -> CallOutcome:
        heard.append("answered")
        return miss()

    def listen(made: Bench) -> None:
        def send(request: Request) -> Awaitable[CallOutcome]:
            heard.append("sent")
            return made.service(request)

        made.lane._send = send

    asked(6, reply, first=listen, cap=3)
    assert heard == ["sent"] * 3 + ["answered", "sent"] * 3 + ["answered"] * 3


def test_a_call_waiting_to_retry_holds_no_slot() -> None:
    """While refused lookups wait, others use the whole cap."""

    def reply(request: Request, attempt: int) -> CallOutcome:
        early = int(request.asked) < 4
        return refused(60.0) if early and attempt == 1 else miss()

    async def main(made: Bench) -> None:
        made.lane._cap.on_result = lambda **_: None  # type: ignore[method-assign]  # no pause
        first = asyncio.ensure_future(ask_all(made, 204))
        await asyncio.sleep(50)
        assert made.progress.free == 200
        assert made.service.flying == 0
        assert statuses(await first) == {FREE}

    in_time(main, reply, cap=4)


def test_a_paused_check_gives_its_intents_back() -> None:
    """What was reserved ahead is free for others while nothing may be sent, and asked later."""

    async def main(loop: VirtualLoop) -> None:
        made = bench(loop, lambda *_: refused(120) if loop.time() < 1 else miss())
        all_asked = asyncio.ensure_future(ask_all(made, 100))
        await asyncio.sleep(60)
        assert not made.store.open
        assert (made.store.reserved, made.wallet.bound_micro) == (0, 0)
        assert statuses(await all_asked) == {FREE}

    run(main)


# --- who asks ---


def test_a_lookup_under_way_is_joined() -> None:
    """By whoever needs it too, and where it is twice in a list."""

    async def main(made: Bench) -> None:
        both = await asyncio.gather(ask_all(made, 10), ask_all(made, 10))
        again = await made.lane.make([task(20), task(20)])
        assert statuses([*both[0], *both[1], *again]) == {PAID}
        assert len(made.service.sent) == 11
        assert made.store.spent == 11 * PRICE

    in_time(main, lambda *_: hit())


# --- how lookups end ---


@pytest.mark.parametrize(
    ("reply", "status", "sent", "spent", "reserved"),
    [
        (lambda *_: lost(), IN_DOUBT, 3, 0, 3),
        (lambda _, attempt: lost() if attempt == 1 else hit(), PAID, 2, 1, 1),
        (lambda *_: rejected(), FAILED, 1, 0, 0),
    ],
    ids=["always lost", "answered after a doubt", "rejected"],
)
def test_a_lookup_ends_once_its_attempts_are_used_up(
    reply: Callable[[Request, int], CallOutcome],
    status: LookupStatus,
    sent: int,
    spent: int,
    reserved: int,
) -> None:
    """Resends included; what may have been charged stays reserved, and one attempt is the last."""
    made, tasks = asked(5, reply, attempts=3)
    assert statuses(tasks) == {status}
    assert set(made.service.attempts.values()) == {sent}
    assert (made.store.spent, made.store.reserved) == (5 * spent * PRICE, 5 * reserved * PRICE)
    assert sum(each.final for each in made.store.settled) == (0 if status is PAID else 5)


def test_a_lookup_held_by_another_run_waits_and_takes_its_answer() -> None:
    """While another run makes the same call this one waits, then reuses what was answered."""

    def hold(made: Bench) -> None:
        def grants(ask: ReserveRequest) -> ReservationStatus | None:
            if ask.subject != task(0).subject:
                return None
            there = made.loop.time() >= 5
            return ReservationStatus.ANSWERED if there else ReservationStatus.HELD

        made.store.grants = grants

    made, tasks = asked(3, first=hold)
    assert [each.status for each in tasks] == [LookupStatus.REUSED, FREE, FREE]
    assert len(made.service.sent) == 2
    assert 5 <= made.loop.time() < 6


# --- the wallet, and prices ---


def test_a_risen_price_is_reserved_for_all_that_is_sent_later() -> None:
    """Intents made at the old price are given back; only what was in flight exceeds the cap."""
    made, _ = asked(
        300,
        at=lambda now: hit(PRICE if now < 1 else 3 * PRICE),
        cap=4,
        caps=Caps(run_micro=100 * PRICE),
    )
    assert made.store.spent - 100 * PRICE <= 4 * 2 * PRICE
    assert 0 < made.wallet.excess_micro <= 4 * 2 * PRICE
    assert any("rose from ₦10.00 to ₦30.00" in each for each in made.stops.notices)
    late = [each for each in made.store.settled if each.sent_at and each.cost_micro]
    assert all(each.ask.worst_micro == 3 * PRICE for each in late[-10:])


# --- what breaks ---


def test_a_call_that_cannot_be_made_is_reported_to_every_caller() -> None:
    """A fault of ours in sending stops the lane instead of hanging it."""

    def reply(request: Request, _: int) -> CallOutcome:
        if int(request.asked) == 3:
            raise UsageError("no request can be built")
        return miss()

    async def main(made: Bench) -> None:
        with pytest.raises(UsageError):
            await ask_all(made, 50)
        assert len(made.service.sent) <= 6
        assert made.lane.open == 0

    in_time(main, reply, cap=2)


def test_a_fault_inside_the_lane_leaves_nobody_waiting() -> None:
    """Even a mistake of the lane's own reaches the caller."""

    async def main(made: Bench) -> None:
        made.lane._bring_back_due = lambda: 1 / 0  # type: ignore[method-assign, assignment]
        with pytest.raises(NightscreenError, match="ZeroDivisionError"):
            await ask_all(made, 5)

    in_time(main)


# --- what makes further calls useless ---


def test_intents_that_are_not_sent_are_given_back() -> None:
    """Committed ahead and not sent, they are settled as released when the run stops."""

    async def main(made: Bench) -> None:
        all_asked = asyncio.ensure_future(ask_all(made, 100))
        await asyncio.sleep(0.05)
        made.stops.stop(StopReason.CANCELLED)
        await all_asked
        await made.lane.drain()
        given_back = [each for each in made.store.settled if each.trouble == RELEASED]
        assert {(each.state, each.sent_at) for each in given_back} == {(CallState.NOT_SENT, None)}
        assert not made.store.open
        assert made.store.reserved == 0
        assert len(made.service.sent) == 8

    in_time(main)


@pytest.mark.parametrize("cap", [4, 40])
def test_the_same_fault_from_the_start_stops_a_check_after_a_handful(cap: int) -> None:
    """Five lookups, one at a time once there is doubt; others may have been in flight before."""
    same = replace(lost(FailureReason.OVERLOAD), status=500, fault="the same")

    def opens_as_usual(made: Bench) -> None:
        made.lane._cap = AdaptiveCap(cap)

    made, tasks = asked(300, lambda *_: same, first=opens_as_usual, cap=cap)
    assert made.stops.checks == {"karma": "outage"}
    assert len(made.service.sent) <= 5 + max(4, cap // 4)
    assert sum(each.attempts for each in tasks) == len(made.service.sent)
    assert 60 < made.loop.time() < 120
    assert any("same fault" in each for each in made.stops.notices)


# --- nothing waits for ever ---

GIVE_UP_S = 600


def giving_up() -> Stops:
    """Return the stops of a run that ends after ten minutes without an answer."""
    return Stops(silence=Silence(GIVE_UP_S))


def test_in_an_outage_calls_go_one_at_a_time_until_there_is_an_answer() -> None:
    """The first answer lets all through again."""
    made, tasks = asked(
        50,
        at=lambda now: miss() if now >= 100 else lost(FailureReason.CUT),
        attempts=1000,
        stops=Stops(silence=Silence(after=10)),
    )
    assert statuses(tasks) == {FREE}
    probes = [at for at, _ in made.service.sent if 5 < at < 100]
    assert min(late - early for early, late in itertools.pairwise(probes)) >= 15
    assert (made.stops.silence.opened_at, made.stops.reason) == (None, None)
    assert made.loop.steps < 5000


@pytest.mark.parametrize("attempts", [1, 5])
def test_lookups_that_are_never_answered_leave_the_others_to_be_asked(attempts: int) -> None:
    """A row of lookups that fill the lane and always fail is no outage: those behind get through.

    Once others are answered, the failing ones use up their attempts and end.
    """

    def reply(request: Request, _: int) -> CallOutcome:
        return refused() if 20 <= int(request.asked) < 40 else miss()

    made, tasks = asked(200, reply, stops=giving_up(), attempts=attempts, cap=4)
    assert made.stops.reason is None
    assert [number_of(each) for each in tasks if each.status is FAILED] == [*range(20, 40)]
    assert statuses(tasks) == {FREE, FAILED}


def test_the_last_customer_who_is_never_answered_is_no_outage() -> None:
    """Their identifiers are one witness: the lookups fail, and the run is completed."""

    async def main(made: Bench) -> None:
        tasks = [replace(task(each), row=min(each, 96)) for each in range(100)]
        await made.lane.make(tasks)
        assert made.stops.reason is None
        assert [each.status for each in tasks[96:]] == [FAILED] * 4

    def reply(request: Request, _: int) -> CallOutcome:
        return refused() if int(request.asked) >= 96 else miss()

    in_time(main, reply, stops=giving_up(), attempts=2, cap=4)


def test_a_lookup_that_a_stopped_process_holds_is_given_up() -> None:
    """All else is asked; then ten minutes, and the run says what it waited for."""

    def hold(made: Bench) -> None:
        held = task(3).subject
        made.store.grants = lambda ask: ReservationStatus.HELD if ask.subject == held else None

    made, tasks = asked(50, first=hold, stops=giving_up())
    assert made.stops.reason == StopReason.OUTAGE
    assert number_in(tasks, FREE) == 49
    assert GIVE_UP_S <= made.loop.time() < GIVE_UP_S + 10
    assert "an answer that another process asks for" in made.stops.notices[0]


@pytest.mark.parametrize("moved_s", [-7200, 7200])
def test_a_wall_clock_that_is_set_changes_no_wait(moved_s: int) -> None:
    """Probes and giving up go by a clock that nobody sets."""

    def moves(made: Bench) -> None:
        loop = made.loop
        made.lane._clock = lambda: loop.micros() + (moved_s * MICROS if loop.time() > 60 else 0)

    made, _ = asked(200, lambda *_: lost(), first=moves, stops=giving_up(), attempts=20)
    assert made.stops.reason == StopReason.OUTAGE
    assert GIVE_UP_S <= made.loop.time() < GIVE_UP_S + 70
