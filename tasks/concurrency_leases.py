"""Slots: caps on calls in flight that hold over all processes, by the engine's global limits.

Each check, and each family of operations beside screening, has a limit on the Prefect server, such
as `nightscreen-karma` or `nightscreen-bvn`. A process holds blocks of its
slots by leases, gives back what is above its share when others want some, and all of it when it has
nothing left to ask. No slot, no call: a limit that is missing is made, one that is switched off
stops the check. What a share is, is in `steps/calling/fair_share.py`.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from prefect import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.client.schemas.objects import ConcurrencyLeaseHolder
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.runtime import flow_run
from prefect.settings import (
    PREFECT_API_URL,
    PREFECT_CLIENT_MAX_RETRIES,
    temporary_settings,
)

from nightscreen.client.limits import family_of
from nightscreen.schemas.errors import SettingsError
from nightscreen.steps.calling.fair_share import blocks, share_of
from nightscreen.storage.clock import MICROS
from nightscreen.storage.journal.slot_demand import Claims
from nightscreen.tasks.cancellation import shield_until_done

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from prefect.client.orchestration import PrefectClient

    from nightscreen.client.limiter import LeasedCap
    from nightscreen.schemas.checks import Asked
    from nightscreen.steps.calling.call_session import CallSession

LEASE_S = 60.0
"""How long a killed process keeps its slots; the engine allows no less."""
RENEW_S = 20.0
SURE_S = 5.0
"""Before its end a lease counts as lost, so that no call rests on a doubtful one."""
EVERY_S, HURRY_S = 1.0, 0.25
LIMITS_S = 15.0
"""How often the limits are read anew: a person may change them while runs go on."""
TURN_S = 10
"""How long a turn lasts where more processes want slots than there are."""
_UNREACHABLE = "the Prefect server cannot be reached; slots are kept as long as their leases last"


def limit_name(family: str) -> str:
    """Return the name of the global concurrency limit of a check, or a family of operations."""
    return f"nightscreen-{family.replace('_', '-')}"


@dataclass(slots=True)
class Lease:
    """A block of slots; instants on the loop's clock."""

    lease_id: UUID
    slots: int
    until: float
    renew_at: float


@dataclass(slots=True)
class Holding:
    """What this process holds of one limit's slots.

    Attributes:
        family: the check, or the family of operations, as settings name it.
        limit: calls that may be in flight over all processes.
        leases: what is held and used.
        leaving: what goes back as soon as the calls that rest on it have settled.
        claimed: others know that this process wants some.
    """

    family: str
    cap: LeasedCap
    most: int
    limit: int = 0
    leases: list[Lease] = field(default_factory=list)
    leaving: list[Lease] = field(default_factory=list)
    claimed: bool = False

    @property
    def name(self) -> str:
        """Return the name of the limit."""
        return limit_name(self.family)

    @property
    def held(self) -> int:
        """Return how many slots are held and used."""
        return sum(lease.slots for lease in self.leases)


class LeaseManager:
    """Keeps the slots of one process while it asks."""

    def __init__(self, session: CallSession, client: PrefectClient, claims: Claims) -> None:
        self._session = session
        self._client = client
        self._claims = claims
        self._read_at = 0.0
        self._over = asyncio.Event()
        settings = session.run.settings
        self._holdings = {
            operation: Holding(
                family_of(operation), cap, getattr(settings.max_in_flight, family_of(operation))
            )
            for operation, cap in session.leased.items()
        }

    async def open(self) -> None:
        """Read each limit, making those that are missing.

        Raises:
            SettingsError: one is switched off.
        """
        for holding in self._holdings.values():
            holding.limit = await self._ensure(holding)
            if holding.limit < 0:
                raise SettingsError(
                    f"the global concurrency limit {holding.name} is switched off, so that nothing "
                    f"would hold the cap: prefect global-concurrency-limit enable {holding.name}"
                )

    async def _ensure(self, holding: Holding) -> int:
        """Return a limit, making it where it is missing; -1 where it is switched off."""
        try:
            found = await self._client.read_global_concurrency_limit_by_name(holding.name)
        except ObjectNotFound:
            wanted = GlobalConcurrencyLimitCreate(name=holding.name, limit=holding.most)
            try:
                await self._client.create_global_concurrency_limit(wanted)
            except ObjectAlreadyExists:  # another process was quicker
                return await self._ensure(holding)
            return holding.most
        return min(found.limit, holding.most) if found.active else -1

    async def keep(self) -> None:
        """Tend to the slots until it is over; a lease under way is never left behind.

        A busy server is asked again a moment later. The engine's client would wait for half a
        minute and more between two attempts, and all checks with it.
        """
        with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}):
            while not self._over.is_set():
                eager = await self._tend()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._over.wait(), HURRY_S if eager else EVERY_S)

    async def _tend(self) -> bool:
        """Bring what is held in line with what is due; return True where some wait for a slot."""
        now = asyncio.get_running_loop().time()
        if now - self._read_at > LIMITS_S:
            await self._read_limits()
            self._read_at = now
        await asyncio.to_thread(self._claim)
        claimants = await asyncio.to_thread(self._claims.claimants)
        turn = self._session.run.clock() // (TURN_S * MICROS)
        eager = False
        for operation, holding in self._holdings.items():
            due = share_of(
                self._claims.name, claimants.get(holding.family, []), max(0, holding.limit), turn
            )
            await self._renew(holding)
            self._lower(operation, holding, due)
            await self._give_back(operation, holding)
            if due > holding.held and not holding.leaving:
                await self._take(holding, due - holding.held)
            self._allot(operation, holding)
            eager = eager or (holding.claimed and not holding.held)
        return eager

    async def _read_limits(self) -> None:
        for holding in self._holdings.values():
            found = await self._tried(self._ensure(holding))
            if found is not None:
                holding.limit = found

    def _claim(self) -> None:
        """Tell the others whether this process wants slots."""
        for operation, holding in self._holdings.items():
            wants = self._session.windows[operation].open > 0
            if wants and not holding.claimed:
                self._claims.claim(holding.family)
            elif holding.claimed and not wants:
                self._claims.drop(holding.family)
            holding.claimed = wants

    # --- leases ---

    async def _renew(self, holding: Holding) -> None:
        """Renew leases in time; one that could not be renewed in time is not relied upon."""
        loop = asyncio.get_running_loop()
        for lease in [*holding.leases, *holding.leaving]:
            asked_at = loop.time()
            if asked_at < lease.renew_at:
                continue
            renewed = await self._tried(
                self._client.renew_concurrency_lease(lease.lease_id, LEASE_S)
            )
            if renewed is not None:
                lease.until = asked_at + LEASE_S - SURE_S
                lease.renew_at = asked_at + RENEW_S
        for leases in (holding.leases, holding.leaving):
            leases[:] = [lease for lease in leases if loop.time() < lease.until]

    def _lower(self, operation: Asked, holding: Holding, due: int) -> None:
        """Put aside what is above the share; new calls do not rest on it any more."""
        for lease in sorted(holding.leases, key=lambda each: each.slots):
            if holding.held <= due:
                break
            holding.leases.remove(lease)
            holding.leaving.append(lease)
        self._allot(operation, holding)

    async def _give_back(self, operation: Asked, holding: Holding) -> None:
        """Give back what was put aside, once no call in flight needs it."""
        for lease in list(holding.leaving):
            needed = self._session.windows[operation].in_flight - holding.held
            rest = sum(each.slots for each in holding.leaving) - lease.slots
            if rest < needed:
                continue
            await self._release(lease)
            holding.leaving.remove(lease)

    async def _release(self, lease: Lease) -> None:
        await self._tried(self._client.release_concurrency_slots_with_lease(lease.lease_id))

    async def _take(self, holding: Holding, wanted: int) -> None:
        """Take slots in blocks, as many as are free; whole blocks first, then halves of them."""
        for block in blocks(wanted):
            size = block
            while size:
                lease = await self._try_to_lease(holding, size)
                if lease is not None:
                    holding.leases.append(lease)
                    break
                size //= 2
            if size < block:
                return

    async def _try_to_lease(self, holding: Holding, slots: int) -> Lease | None:
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        answer = await self._tried(
            self._client.increment_concurrency_slots_with_lease(
                [holding.name], slots, "concurrency", LEASE_S, _holder()
            )
        )
        found = None if answer is None else answer.json()
        if found is None:
            return None
        lease = Lease(
            UUID(found["lease_id"]), slots, asked_at + LEASE_S - SURE_S, asked_at + RENEW_S
        )
        if not found["limits"]:  # somebody removed the limit: such slots hold nothing
            await self._release(lease)
            self._read_at = 0.0
            return None
        return lease

    def _allot(self, operation: Asked, holding: Holding) -> None:
        if holding.cap.allotted != holding.held:
            holding.cap.allotted = holding.held
            self._session.windows[operation].nudge()

    async def _tried(self, asked: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - whatever is asked for
        """Ask the server; None where it refuses or cannot be reached."""
        task = asyncio.get_running_loop().create_task(asked)
        await asyncio.wait([task])
        if task.cancelled() or task.exception() is not None:
            logging.getLogger(__name__).debug(_UNREACHABLE)
            return None
        return task.result()

    def end(self) -> None:
        """Let `keep` come to its end."""
        self._over.set()

    async def close(self) -> None:
        """Give everything back."""
        for holding in self._holdings.values():
            holding.cap.allotted = 0
            for lease in [*holding.leases, *holding.leaving]:
                await self._release(lease)
            holding.leases.clear()
            holding.leaving.clear()
        await asyncio.to_thread(self._drop_claims)

    def _drop_claims(self) -> None:
        for holding in self._holdings.values():
            if holding.claimed:
                self._claims.drop(holding.family)


def _holder() -> ConcurrencyLeaseHolder | None:
    """Name this flow run as the holder, so that the UI shows who has the slots."""
    mine = flow_run.id
    return ConcurrencyLeaseHolder(type="flow_run", id=UUID(mine)) if mine else None


def require_server(wish: str) -> None:
    """Refuse what needs a server that other processes see.

    Raises:
        SettingsError: there is only a temporary one.
    """
    if not PREFECT_API_URL.value():
        raise SettingsError(
            f"{wish} needs a Prefect server that runs: set PREFECT_API_URL, see docs/deploy.md"
        )


@asynccontextmanager
async def sharing_caps(session: CallSession) -> AsyncIterator[None]:
    """Hold slots for the calls of the body, and give them back afterwards."""
    if not session.leased:
        yield
        return
    require_server("sharing caps with other processes")
    claims = await asyncio.to_thread(Claims.of, session.run.journal)
    async with get_client() as client:
        keeper = LeaseManager(session, client, claims)
        await keeper.open()
        keeping = asyncio.get_running_loop().create_task(keeper.keep())
        keeping.add_done_callback(lambda task: _tell(session, task))
        try:
            yield
        finally:
            keeper.end()
            await shield_until_done(_close(keeper, keeping))


async def _close(keeper: LeaseManager, keeping: asyncio.Task[None]) -> None:
    await asyncio.wait([keeping])
    await keeper.close()


def _tell(session: CallSession, keeping: asyncio.Task[None]) -> None:
    """Let a run know that nobody keeps its slots any more: the journal failed."""
    fault = None if keeping.cancelled() else keeping.exception()
    if isinstance(fault, Exception):
        session.writer.breaks(fault)
        for window in session.windows.values():
            window.nudge()
