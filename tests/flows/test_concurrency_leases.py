"""Slots of the engine's limits: shared by all who want some, never more than there are."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID, uuid4

import pytest
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES

from nightscreen.client.limiter import AdaptiveCap, LeasedCap
from nightscreen.schemas.checks import Check
from nightscreen.schemas.errors import SettingsError
from nightscreen.schemas.settings import MaxInFlight
from nightscreen.tasks.concurrency_leases import LEASE_S, LeaseManager, limit_name
from tests.steps.virtual_time import VirtualLoop, run

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from prefect.client.orchestration import PrefectClient

    from nightscreen.steps.calling.call_session import CallSession
    from nightscreen.storage.journal.slot_demand import Claims

LIMIT = 8
CALL_S = 0.4
NAME = limit_name("karma")


@dataclass
class Server:
    """The part of the engine's API that slots need, with leases that end by themselves."""

    limits: dict[str, int] = field(default_factory=dict)
    active: bool = True
    reachable: bool = True
    busy_until: float = 0.0
    leases: dict[UUID, tuple[int, float]] = field(default_factory=dict)

    def taken(self) -> int:
        """Return how many slots are out."""
        now = asyncio.get_running_loop().time()
        self.leases = {name: each for name, each in self.leases.items() if each[1] > now}
        return sum(slots for slots, _ in self.leases.values())

    def _answer(self) -> None:
        if not self.reachable:
            raise ConnectionError

    async def read_global_concurrency_limit_by_name(self, name: str) -> Any:  # noqa: ANN401 - a document
        """Return a limit."""
        self._answer()
        if name not in self.limits:
            raise ObjectNotFound(Exception())
        return SimpleNamespace(limit=self.limits[name], active=self.active)

    async def create_global_concurrency_limit(self, concurrency_limit: Any) -> UUID:  # noqa: ANN401 - a document
        """Make a limit."""
        self.limits[concurrency_limit.name] = concurrency_limit.limit
        return uuid4()

    async def increment_concurrency_slots_with_lease(
        self, names: list[str], slots: int, mode: str, lease_duration: float, holder: object = None
    ) -> Any:  # noqa: ANN401 - a response
        """Lease slots, or refuse; where the server is busy, as patiently as the engine's client."""
        loop, attempts = asyncio.get_running_loop(), PREFECT_CLIENT_MAX_RETRIES.value()
        for attempt in range(1, attempts + 1):
            if loop.time() >= self.busy_until:
                break
            await asyncio.sleep(2**attempt)
        if loop.time() < self.busy_until:
            raise ConnectionError
        self._answer()
        if self.taken() + slots > self.limits[names[0]]:
            raise PermissionError
        lease = uuid4()
        self.leases[lease] = (slots, asyncio.get_running_loop().time() + lease_duration)
        found = {"lease_id": str(lease), "limits": [{"name": names[0]}]}
        return SimpleNamespace(json=lambda: found)

    async def renew_concurrency_lease(self, lease_id: UUID, lease_duration: float) -> Any:  # noqa: ANN401 - a response
        """Renew a lease that has not ended."""
        self._answer()
        self.taken()
        slots, _ = self.leases[lease_id]
        self.leases[lease_id] = (slots, asyncio.get_running_loop().time() + lease_duration)
        return SimpleNamespace()

    async def release_concurrency_slots_with_lease(self, lease_id: UUID) -> None:
        """Take slots back."""
        self._answer()
        self.leases.pop(lease_id, None)


@dataclass
class Wishes:
    """Who wants slots, as the journal tells everybody."""

    name: str
    all: dict[str, set[str]]

    def claim(self, check: str) -> None:
        """Want some."""
        self.all.setdefault(check, set()).add(self.name)

    def drop(self, check: str) -> None:
        """Want none any more."""
        self.all[check].discard(self.name)

    def claimants(self) -> dict[str, list[str]]:
        """Return who wants some."""
        return {check: sorted(names) for check, names in self.all.items()}


@dataclass
class Process:
    """A process with calls to make, and the slots it has for them."""

    name: str
    world: World
    left: int
    in_flight: int = 0
    most: int = 0
    done_at: float = 0.0
    dead: bool = False
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    cap: LeasedCap = field(default_factory=lambda: LeasedCap(AdaptiveCap(LIMIT, LIMIT)))

    @property
    def open(self) -> int:
        """Return calls that are not done."""
        return self.left + self.in_flight

    def nudge(self) -> None:
        """Look again."""
        self.wake.set()

    def keeper(self) -> LeaseManager:
        """Return what keeps this process's slots."""
        settings = SimpleNamespace(max_in_flight=MaxInFlight(karma=LIMIT))
        loop = cast("VirtualLoop", asyncio.get_running_loop())
        session = SimpleNamespace(
            run=SimpleNamespace(settings=settings, clock=loop.micros),
            leased={Check.KARMA: self.cap},
            windows={Check.KARMA: self},
        )
        return LeaseManager(
            cast("CallSession", session),
            cast("PrefectClient", self.world.server),
            cast("Claims", Wishes(self.name, self.world.wishes)),
        )

    async def run(self) -> None:
        """Make every call, as many at a time as there are slots for."""
        keeper = self.keeper()
        await keeper.open()
        keeping = asyncio.create_task(keeper.keep())
        calls: set[asyncio.Task[None]] = set()
        while self.open and not self.dead:
            self.wake.clear()
            while self.left and self.in_flight < self.cap.cap and not self.dead:
                self.left -= 1
                self.in_flight += 1
                self.most = max(self.most, self.in_flight)
                self.world.saw()
                calls.add(asyncio.create_task(self._call()))
            await self.wake.wait()
        self.done_at = asyncio.get_running_loop().time()
        keeper.end()
        await keeping
        if self.dead:
            self.world.wishes["karma"].discard(self.name)  # its lock is free
        else:
            await keeper.close()

    async def _call(self) -> None:
        await asyncio.sleep(CALL_S)
        self.in_flight -= 1
        self.wake.set()

    async def die(self, after_s: float) -> None:
        """End without giving anything back; what is in flight goes on for a while."""
        await asyncio.sleep(after_s)
        self.dead = True
        self.wake.set()


@dataclass
class World:
    """A server, and all processes that share it."""

    server: Server = field(default_factory=Server)
    wishes: dict[str, set[str]] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    most: int = 0

    def process(self, left: int) -> Process:
        """Add a process."""
        made = Process(f"p{len(self.processes)}", self, left)
        self.processes.append(made)
        return made

    def saw(self) -> None:
        """Take note of how many calls are in flight over all processes."""
        self.most = max(self.most, sum(each.in_flight for each in self.processes))
        assert self.most <= LIMIT


async def _after(delay_s: float, work: Coroutine[Any, Any, None]) -> None:
    await asyncio.sleep(delay_s)
    await work


def test_one_alone_has_all_and_gives_it_back() -> None:
    """The limit is made where there is none, used whole, and free afterwards."""

    async def scenario(_loop: VirtualLoop) -> None:
        world = World()
        await world.process(200).run()
        assert world.server.limits == {NAME: LIMIT}
        assert world.most == LIMIT
        assert world.server.taken() == 0
        assert world.wishes == {"karma": set()}

    run(scenario)


def test_who_comes_later_has_an_equal_share() -> None:
    """Neither starves, and together they use all there is."""

    async def scenario(_loop: VirtualLoop) -> None:
        world = World()
        nightly, adhoc = world.process(2000), world.process(200)
        await asyncio.gather(nightly.run(), _after(20, adhoc.run()))
        assert adhoc.most == LIMIT // 2
        alone_s = 200 / LIMIT * CALL_S
        assert adhoc.done_at - 20 < 2.5 * alone_s
        assert nightly.done_at < 1.2 * 2200 / LIMIT * CALL_S

    run(scenario)


def test_more_processes_than_slots_take_turns() -> None:
    """Each gets to the end of what it has to ask."""

    async def scenario(_loop: VirtualLoop) -> None:
        world = World(Server({NAME: 2}))
        processes = [world.process(40) for _ in range(5)]
        await asyncio.gather(*(each.run() for each in processes))
        assert world.most == 2

    run(scenario)


def test_slots_of_a_dead_process_come_back() -> None:
    """After its lease, not before; others go on meanwhile with what they have."""

    async def scenario(_loop: VirtualLoop) -> None:
        world = World()
        victim, other = world.process(5000), world.process(3000)
        await asyncio.gather(victim.run(), other.run(), victim.die(10))
        assert other.most == LIMIT
        at_half_s = 10 + LEASE_S
        assert at_half_s < other.done_at < at_half_s + 3000 / LIMIT * CALL_S

    run(scenario)


def test_no_call_rests_on_a_lease_that_may_have_ended() -> None:
    """A server that is gone for long stops calls; when it is back they go on."""

    async def scenario(_loop: VirtualLoop) -> None:
        world = World()
        process = world.process(2500)
        running = asyncio.create_task(process.run())
        await asyncio.sleep(5)
        world.server.reachable = False
        await asyncio.sleep(30)
        assert process.cap.cap == LIMIT
        await asyncio.sleep(40)
        assert process.cap.cap == 0
        world.server.reachable = True
        await running
        assert process.left == 0

    run(scenario)


def test_a_limit_changed_by_a_person_holds_soon() -> None:
    """Lowered while calls are under way, and never over what the settings allow."""

    async def scenario(_loop: VirtualLoop) -> None:
        world = World(Server({NAME: 100}))
        process = world.process(2000)
        running = asyncio.create_task(process.run())
        await asyncio.sleep(5)
        assert process.cap.cap == LIMIT
        world.server.limits[NAME] = 3
        await asyncio.sleep(30)
        assert process.in_flight == 3
        await running

    run(scenario)


def test_a_limit_that_is_switched_off_is_refused() -> None:
    """It would hold nothing: nothing is asked under it."""

    async def scenario(_loop: VirtualLoop) -> None:
        world = World(Server({NAME: 8}, active=False))
        with pytest.raises(SettingsError, match="switched off"):
            await world.process(1).run()

    run(scenario)


def test_a_busy_server_is_asked_again_at_once() -> None:
    """A server that refuses for some seconds costs those, not the patience of its client."""

    async def scenario(_loop: VirtualLoop) -> None:
        world = World()
        world.server.busy_until = busy_s = 40.0
        process = world.process(80)
        await process.run()
        assert process.done_at < busy_s + 80 * CALL_S / LIMIT + 3

    run(scenario)
