"""A lane, in virtual time: nothing here depends on how fast the machine is."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from nightscreen.calling.lane import Lane
from nightscreen.calling.lookup_task import LookupTask
from nightscreen.calling.stops import Silence, Stops
from nightscreen.client.classify import CallOutcome
from nightscreen.client.limiter import AdaptiveCap
from nightscreen.client.response_rules import ChargeStatus, FailureReason
from nightscreen.journal import Journal, open_journal
from nightscreen.journal.calls import ClaimRequest
from nightscreen.schemas.calls import Caps, LookupStatus
from nightscreen.schemas.clock import MICROS
from nightscreen.schemas.errors import NightscreenError, UsageError
from nightscreen.schemas.requests import Request
from nightscreen.schemas.stops import StopReason
from tests.calling.lane_in_a_test import (
    PRICE,
    FakeService,
    hit,
    lane_of,
    lost,
    made_all,
    miss,
    refused,
    task,
)
from tests.calling.virtual_time import VirtualLoop, run
from tests.journal.conftest import ended

FREE, PAID, FAILED = LookupStatus.FREE, LookupStatus.PAID, LookupStatus.FAILED
GIVE_UP_S = 120


@dataclass
class Bench:
    """A place where a lane is tried, with everything around it."""

    home: Path
    loop: VirtualLoop = field(default_factory=VirtualLoop)
    opened: ExitStack = field(default_factory=ExitStack)
    service: FakeService = field(init=False)
    journal: Journal = field(init=False)
    lane: Lane = field(init=False)

    def set_up(
        self,
        reply: Callable[[Request, int], CallOutcome] = lambda *_: miss(),
        *,
        at: Callable[[float], CallOutcome] | None = None,
        **options: Any,  # noqa: ANN401 - as `lane_of` has them
    ) -> None:
        """Open a journal and a lane; the service answers by its attempt, or by the instant."""
        answers = reply if at is None else lambda *_: at(self.loop.time())
        self.service = FakeService(self.loop, answers)
        self.journal = self.opened.enter_context(open_journal(self.home, clock=self.loop.micros))
        self.lane = lane_of(self.journal, self.service, **options)

    def asked(self, number: int) -> list[LookupTask]:
        """Ask so many to their end; return them as they stand."""
        return run(lambda _: made_all(self.lane, list(map(task, range(number)))), self.loop)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Return a place to try a lane."""
    made = Bench(tmp_path / "home")
    with made.opened:
        yield made


def statuses(tasks: list[LookupTask]) -> set[LookupStatus]:
    return {each.status for each in tasks}


# --- the cap ---


@pytest.mark.parametrize("cap", [1, 4, 64])
def test_the_cap_is_never_passed_and_the_lane_stays_full(bench: Bench, cap: int) -> None:
    """No more than the cap are on the wire, and hardly ever fewer."""
    bench.set_up(cap=cap)
    assert statuses(bench.asked(20 * cap)) == {FREE}
    assert bench.service.peak == cap
    assert bench.service.busy_s / (cap * bench.loop.time()) > 0.98


def test_a_call_does_not_wait_for_answers_that_came_beside_the_last_one(bench: Bench) -> None:
    """Else calls that once went out together would do so for good, each waiting for all others."""
    heard: list[str] = []

    def reply(*_: object) -> CallOutcome:
        heard.append("answered")
        return miss()

    def send(request: Request) -> Awaitable[CallOutcome]:
        heard.append("sent")
        return bench.service(request)

    bench.set_up(reply, cap=3)
    bench.lane.send = send
    bench.asked(6)
    assert heard == ["sent"] * 3 + ["answered", "sent"] * 3 + ["answered"] * 3


def test_a_call_waiting_to_retry_holds_no_slot(bench: Bench) -> None:
    """While refused calls wait, others use the whole cap."""

    def reply(request: Request, attempt: int) -> CallOutcome:
        return refused(60.0) if int(request.asked) < 4 and attempt == 1 else miss()

    async def main(_: VirtualLoop) -> None:
        bench.lane.cap.on_result = lambda **_: None  # type: ignore[method-assign]  # no pause
        asked = asyncio.ensure_future(made_all(bench.lane, list(map(task, range(204)))))
        await asyncio.sleep(50)
        assert bench.lane.stops.progress["karma"].free == 200
        assert bench.service.flying == 0
        assert statuses(await asked) == {FREE}

    bench.set_up(reply, cap=4)
    run(main, bench.loop)


def test_a_paused_check_gives_its_intents_back(bench: Bench) -> None:
    """What was reserved ahead is free for others while nothing may be sent, and asked later."""
    bench.set_up(at=lambda now: refused(120) if 1 < now < 2 else miss(), cap=4)

    async def main(_: VirtualLoop) -> None:
        asked = asyncio.ensure_future(made_all(bench.lane, list(map(task, range(100)))))
        await asyncio.sleep(60)
        assert bench.lane.open
        assert bench.lane.wallet.bound_micro == 0
        assert bench.journal.money.of_run("run").reserved_micro == 0
        assert statuses(await asked) == {FREE}

    run(main, bench.loop)


@pytest.mark.parametrize(("witnesses", "rests_s"), [(1, 300), (2, 3600)])
def test_one_wish_for_an_hour_is_kept_for_five_minutes(
    bench: Bench, witnesses: int, rests_s: int
) -> None:
    """Where another customer is asked to wait as long, nothing of the check is sent before."""

    def reply(request: Request, attempt: int) -> CallOutcome:
        return refused(3600) if int(request.asked) < witnesses and attempt == 1 else miss()

    bench.set_up(reply, cap=1)
    bench.lane.stops.deadline_at = bench.loop.micros() + 3 * 3600 * MICROS
    assert statuses(bench.asked(6)) == {FREE}
    early, late = max(
        itertools.pairwise(at for at, _ in bench.service.sent), key=lambda pair: pair[1] - pair[0]
    )
    assert rests_s <= late - early < rests_s + 20


def test_a_deadline_ends_a_pause(bench: Bench) -> None:
    """A run that was asked to wait for longer than it has ends at its deadline."""
    bench.set_up(lambda *_: refused(240), cap=1)
    bench.lane.stops.deadline_at = bench.loop.micros() + 60 * MICROS
    bench.asked(3)
    assert bench.lane.stops.reason == StopReason.DEADLINE
    assert 60 <= bench.loop.time() < 61


def test_a_cost_that_is_not_believed_is_no_price(bench: Bench) -> None:
    """The next lookups are reserved at the price known before."""
    dear = replace(hit(), cost_micro=900 * PRICE)
    bench.set_up(lambda request, _: dear if int(request.asked) == 2 else hit(), cap=1)
    bench.lane.wallet.price_limits = {"karma": 20 * PRICE}
    bench.asked(6)
    assert bench.lane.wallet.highest_micro == {"karma": PRICE}


def test_a_refusal_that_stays_is_not_repeated(bench: Bench) -> None:
    """Even where no customer's lookup was answered: each is asked once, without a pause."""
    bench.set_up(lambda *_: replace(refused(), retry=False, strain=False, status=400), cap=3)
    assert statuses(bench.asked(6)) == {FAILED}
    assert (len(bench.service.sent), bench.loop.time() < 2) == (6, True)


def test_a_lookup_in_doubt_keeps_to_its_attempts_in_an_outage(bench: Bench) -> None:
    """Free attempts go on for as long as the service is silent, but not where one may cost."""
    unsent = CallOutcome(ChargeStatus.NOT_SENT, trouble=FailureReason.NOT_SENT, retry=True)
    bench.set_up(
        lambda request, attempt: lost() if attempt == 1 and int(request.asked) < 4 else unsent,
        stops=Stops(silence=Silence(GIVE_UP_S)),
        attempts=3,
        cap=4,
    )
    asked = bench.asked(8)
    assert statuses(asked[:4]) == {LookupStatus.IN_DOUBT}
    assert {each.attempts for each in asked[:4]} == {3}
    assert bench.lane.stops.reason == StopReason.OUTAGE


def test_a_call_under_way_is_joined(bench: Bench) -> None:
    """By whoever needs it too."""
    bench.set_up(lambda *_: hit(), cap=20)
    numbers = [*range(10), *range(10)]
    asked = run(lambda _: made_all(bench.lane, list(map(task, numbers))), bench.loop)
    assert (statuses(asked), len(bench.service.sent)) == ({PAID}, 10)
    assert bench.journal.money.of_run("run").spent_micro == 10 * PRICE


@pytest.mark.parametrize("cap", [1, 8])
def test_an_answer_that_is_taken_back_is_asked_again(bench: Bench, cap: int) -> None:
    """It counts as lost: its money stays bound, and the next answer is the lookup's."""

    async def cut() -> CallOutcome:
        return lost()

    def reply(request: Request, attempt: int) -> CallOutcome:
        return replace(miss(), confirm=cut) if (int(request.asked), attempt) == (3, 1) else hit()

    bench.set_up(reply, cap=cap)
    assert statuses(bench.asked(6)) == {PAID}
    assert len(bench.service.sent) == 7
    assert bench.journal.money.of_run("run").bound_micro == 7 * PRICE


# --- what breaks ---


@pytest.mark.parametrize("inside", [False, True])
def test_a_fault_of_ours_reaches_every_caller_and_leaves_nobody_waiting(
    bench: Bench, *, inside: bool
) -> None:
    """Be it that a call cannot be made, or a mistake of the lane's own."""

    def reply(request: Request, _: int) -> CallOutcome:
        if int(request.asked) == 3:
            raise UsageError("no request can be built")
        return miss()

    bench.set_up(reply, cap=2)
    if inside:
        bench.lane.clock = lambda: 1 // 0
    with pytest.raises(NightscreenError, match="ZeroDivision" if inside else "no request"):
        bench.asked(50)
    assert (len(bench.service.sent) <= 6, bench.lane.open) == (True, 0)


# --- what makes further calls useless, and what is waited for ---


@pytest.mark.parametrize("cap", [4, 40])
def test_the_same_fault_from_the_start_stops_a_check_after_a_handful(
    bench: Bench, cap: int
) -> None:
    """Five lookups, one at a time once there is doubt; others may have been in flight before."""
    bench.set_up(lambda *_: replace(lost(FailureReason.OVERLOAD), status=500, fault="the same"))
    bench.lane.cap = AdaptiveCap(cap)
    tasks = bench.asked(300)
    assert bench.lane.stops.checks == {"karma": "outage"}
    assert len(bench.service.sent) <= 5 + max(4, cap // 4)
    assert sum(each.attempts for each in tasks) == len(bench.service.sent)
    assert 60 < bench.loop.time() < 120
    assert any("same fault" in each for each in bench.lane.stops.notices)


def test_the_last_customer_who_is_never_answered_is_no_outage(bench: Bench) -> None:
    """Their identifiers are one witness: the lookups fail, and the run is completed."""
    bench.set_up(
        lambda request, _: refused() if int(request.asked) >= 96 else miss(),
        stops=Stops(silence=Silence(GIVE_UP_S)),
        attempts=2,
        cap=4,
    )
    calls = [replace(task(each), row=min(each, 96)) for each in range(100)]
    asked = run(lambda _: made_all(bench.lane, calls), bench.loop)
    assert bench.lane.stops.reason is None
    assert [each.status for each in asked[96:]] == [FAILED] * 4


def test_a_lookup_that_a_stopped_process_holds_is_given_up(bench: Bench) -> None:
    """All else is asked; then two minutes, and the run says what it waited for."""
    bench.set_up(stops=Stops(silence=Silence(GIVE_UP_S)))
    other = bench.opened.enter_context(open_journal(bench.home, clock=bench.loop.micros))
    other.calls.claim("other", "portfolio", ClaimRequest("karma", [task(3).ask()]), Caps(), since=0)
    asked = bench.asked(50)
    assert bench.lane.stops.reason == StopReason.OUTAGE
    assert sum(each.status is FREE for each in asked) == 49
    assert GIVE_UP_S <= bench.loop.time() < GIVE_UP_S + 10
    assert "an answer that another process asks for" in bench.lane.stops.notices[0]


def test_a_cap_that_other_processes_use_up_is_given_up(bench: Bench) -> None:
    """A process that shares the cap and stands still keeps its calls; the run says so and ends."""
    caps, shared = Caps(in_flight=(("karma", 1),)), {"karma": 1}
    bench.set_up(stops=Stops(silence=Silence(GIVE_UP_S)))
    bench.lane.writer.caps = caps
    other = bench.opened.enter_context(open_journal(bench.home, clock=bench.loop.micros))
    for journal, run_id in ((bench.journal, "run"), (other, "other")):
        journal.askers.join(run_id, shared)
    other.calls.claim("other", "portfolio", ClaimRequest("karma", [task(99).ask()]), caps, since=0)
    bench.asked(3)
    assert bench.service.sent == []
    assert bench.lane.stops.reason == StopReason.OUTAGE
    assert "MAX_IN_FLIGHT" in bench.lane.stops.notices[0]


def test_a_lookup_that_another_run_asks_waits_and_takes_its_answer(bench: Bench) -> None:
    """While another run makes the same call this one waits, then reuses what was answered."""
    bench.set_up()
    other = bench.opened.enter_context(open_journal(bench.home, clock=bench.loop.micros))
    ask = task(1).ask()
    wish = ClaimRequest("karma", [ask])
    (grant,) = other.calls.claim("other", "portfolio", wish, Caps(), since=0).granted

    async def main(loop: VirtualLoop) -> None:
        asking = asyncio.ensure_future(made_all(bench.lane, list(map(task, range(3)))))
        await asyncio.sleep(5)
        other.calls.settle("other", [ended((ask, grant))])
        asked = await asking
        assert [each.status for each in asked] == [FREE, LookupStatus.REUSED, FREE]
        assert 5 <= loop.time() < 6

    run(main, bench.loop)
    assert len(bench.service.sent) == 2


@pytest.mark.parametrize("moved_s", [-7200, 7200])
def test_a_wall_clock_that_is_set_changes_no_wait(bench: Bench, moved_s: int) -> None:
    """Probes and giving up go by a clock that nobody sets."""
    bench.set_up(lambda *_: lost(), stops=Stops(silence=Silence(GIVE_UP_S)), attempts=20)
    loop = bench.loop
    bench.lane.clock = lambda: loop.micros() + (moved_s * MICROS if loop.time() > 60 else 0)
    bench.asked(200)
    assert bench.lane.stops.reason == StopReason.OUTAGE
    assert GIVE_UP_S <= loop.time() < GIVE_UP_S + 70
