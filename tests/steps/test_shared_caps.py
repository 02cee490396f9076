"""Windows of several processes on one journal, in virtual time: together never over the cap."""

from __future__ import annotations

import asyncio
import itertools
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightscreen.calling.control import CheckProgress, Control
from nightscreen.calling.detectors import Silence
from nightscreen.calling.journal_writer import JournalWriter
from nightscreen.calling.window import RetryBudget, Window
from nightscreen.client.limiter import AdaptiveCap
from nightscreen.journal import open_journal
from nightscreen.schemas.calls import Caps
from nightscreen.schemas.plan import LookupStatus
from tests.how_many import examples
from tests.steps.parts_in_a_test import DeadStore
from tests.steps.virtual_time import VirtualLoop, run
from tests.steps.window_in_a_test import miss, task

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nightscreen.client.classify import CallOutcome
    from nightscreen.schemas.calls import Reservation, ReserveRequest

CAP = 4
CALL_S = 0.53


@dataclass
class Machine:
    """What all processes of a test share: a journal's place and the calls that are on the wire."""

    home: Path
    loop: VirtualLoop
    latency_s: Any = lambda: CALL_S
    cap: int = CAP
    on_wire: dict[str, int] = field(default_factory=dict)
    most: int = 0
    made: int = 0

    def process(self, name: str, **changes: Any) -> Process:  # noqa: ANN401 - of the control
        """Begin a process."""
        return Process(self, name, Control(**changes))


@dataclass
class Process:
    """A process: a journal opened for itself, and a window."""

    machine: Machine
    name: str
    control: Control

    def __post_init__(self) -> None:
        loop = self.machine.loop
        self.journal = open_journal(self.machine.home, clock=loop.micros)
        caps = Caps(in_flight=(("karma", self.machine.cap),))
        self.writer = JournalWriter(
            self.journal.calls, run_id=self.name, purpose="portfolio", caps=caps, since=1 << 60
        )
        self.control.progress = {"karma": CheckProgress()}
        self.machine.on_wire[self.name] = 0
        self.window = Window(
            "karma",
            send=self._answer,
            writer=self.writer,
            cap=AdaptiveCap(self.machine.cap, start=self.machine.cap),
            control=self.control,
            pace=RetryBudget(5, random.Random(7)),
            clock=loop.micros,
        )

    async def _answer(self, _: Any) -> CallOutcome:  # noqa: ANN401 - a lookup
        machine = self.machine
        machine.on_wire[self.name] += 1
        machine.most = max(machine.most, sum(machine.on_wire.values()))
        await asyncio.sleep(machine.latency_s())
        if self.name in machine.on_wire:
            machine.on_wire[self.name] -= 1
        return miss()

    async def ask(self, number: int, after_s: float = 0.0) -> float:
        """Make so many lookups of its own; return when they were done."""
        await asyncio.sleep(after_s)
        first = self.machine.made
        self.machine.made += number
        done = await self.window.ask([task(first + each) for each in range(number)])
        self.statuses = {each.status for each in done}
        return self.machine.loop.time()

    async def end(self) -> None:
        """Give everything back."""
        await self.window.drain()
        self.writer.close()
        self.journal.close()

    def die(self) -> None:
        """End as SIGKILL does: nothing is written any more, the lock is free."""
        self.writer._store = DeadStore()
        del self.machine.on_wire[self.name]
        self.journal.close()


def test_one_alone_uses_all_of_it(tmp_path: Path) -> None:
    """And keeps it busy: a cap that is shared with nobody costs no time."""

    async def scenario(loop: VirtualLoop) -> None:
        machine = Machine(tmp_path, loop)
        process = machine.process("nightly")
        done_at = await process.ask(40)
        await process.end()
        assert machine.most == CAP
        assert done_at < 40 / CAP * CALL_S * 1.1

    run(scenario)


def test_two_that_want_all_of_it_have_half_each_and_lose_no_time(tmp_path: Path) -> None:
    """A call that settles makes room for the next one of its own process at once."""

    async def scenario(loop: VirtualLoop) -> None:
        machine = Machine(tmp_path, loop)
        one, other = machine.process("one"), machine.process("other")
        ends = await asyncio.gather(one.ask(40), other.ask(40))
        assert max(ends) < 80 / CAP * CALL_S * 1.05
        assert min(ends) > 0.9 * max(ends)
        for process in (one, other):
            await process.end()

    run(scenario)


def test_whoever_waits_is_not_left_asleep(tmp_path: Path) -> None:
    """Time passes while a window looks around: a wait that ends meanwhile is not forgotten."""

    async def scenario(loop: VirtualLoop) -> None:
        def ticking() -> float:
            loop.now_s += 0.0005
            return loop.now_s

        loop.time = ticking  # type: ignore[method-assign]
        machine = Machine(tmp_path, loop, latency_s=lambda: 10.0)
        nightly, analyst = machine.process("nightly"), machine.process("analyst")
        asked_at: list[float] = []
        reserve = analyst.writer.reserve

        async def noted(asks: Sequence[ReserveRequest], more: int = 0) -> list[Reservation]:
            asked_at.append(loop.now_s)  # woken about when the wait ends, by something else
            loop.call_later(0.09 + 0.0005 * (len(asked_at) % 40), analyst.window.nudge)
            return await reserve(asks, more)

        analyst.writer.reserve = noted  # type: ignore[method-assign]
        night = asyncio.create_task(nightly.ask(CAP))
        await analyst.ask(1, after_s=1)
        await night
        gaps = [later - earlier for earlier, later in itertools.pairwise(asked_at)]
        assert len(gaps) > 40
        assert max(gaps) < 0.2
        for process in (nightly, analyst):
            await process.end()

    run(scenario)


def test_a_long_night_starves_no_analyst(tmp_path: Path) -> None:
    """Three rows beside thousands take little more than one call after the other would."""

    async def scenario(loop: VirtualLoop) -> None:
        machine = Machine(tmp_path, loop)
        nightly, analyst = machine.process("nightly"), machine.process("analyst")
        night = asyncio.create_task(nightly.ask(300))
        took_s = await analyst.ask(3, after_s=5) - 5
        assert took_s < 4 * CALL_S, "a call settles, then half of the cap is its own"
        ended_at = await night
        assert ended_at < 303 / CAP * CALL_S * 1.1, "and nothing was left unused for it"
        for process in (nightly, analyst):
            await process.end()
        assert machine.most == CAP

    run(scenario)


def test_more_processes_than_calls_take_turns(tmp_path: Path) -> None:
    """Each comes to its end, at about the same time."""

    async def scenario(loop: VirtualLoop) -> None:
        machine = Machine(tmp_path, loop, cap=2)
        processes = [machine.process(f"p{number}") for number in range(5)]
        ends = await asyncio.gather(*(each.ask(16) for each in processes))
        for process in processes:
            await process.end()
        assert machine.most == 2
        assert min(ends) > 0.7 * max(ends)

    run(scenario)


def test_slots_that_are_lost_end_as_an_outage_that_names_who_has_them(tmp_path: Path) -> None:
    """A suspended process keeps its calls: whoever waits for them gives up, and says so."""

    async def scenario(loop: VirtualLoop) -> None:
        machine = Machine(tmp_path, loop, latency_s=lambda: 1e6)
        suspended = machine.process("suspended")
        analyst = machine.process("analyst", silence=Silence(20.0))
        hanging = asyncio.create_task(suspended.ask(CAP))
        given_up_at = await analyst.ask(3, after_s=1)
        assert 20 <= given_up_at < 23
        assert analyst.statuses == {LookupStatus.WAITING}
        assert analyst.control.stop == "outage"
        (notice,) = analyst.control.notices
        assert "waited for calls under way of process " in notice
        assert "MAX_IN_FLIGHT" in notice
        await hanging
        for process in (suspended, analyst):
            await process.end()

    run(scenario)


@pytest.mark.parametrize("cap", [1, 3])
@settings(max_examples=examples(5), deadline=None)
@given(seed=st.integers(0, 10**6), killed_after_s=st.floats(0.1, 6))
def test_two_processes_never_exceed_the_cap_together(
    tmp_path_factory: pytest.TempPathFactory, cap: int, seed: int, killed_after_s: float
) -> None:
    """At any lengths of calls, with one process killed; the other comes to its end with all."""
    chance = random.Random(seed)

    async def scenario(loop: VirtualLoop) -> None:
        home = tmp_path_factory.mktemp("home")
        machine = Machine(home, loop, lambda: chance.uniform(0.05, 1.5), cap)
        victim, other = machine.process("victim"), machine.process("other")
        asking = asyncio.create_task(victim.ask(50))
        finishing = asyncio.create_task(other.ask(25, after_s=chance.uniform(0, 1)))
        await asyncio.sleep(killed_after_s)
        victim.die()
        await finishing
        assert other.statuses == {LookupStatus.FREE}
        assert machine.most <= cap
        await asyncio.gather(asking, return_exceptions=True)
        await victim.window.drain()
        victim.writer.close()
        await other.end()

    run(scenario)
