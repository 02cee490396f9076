"""Parts as the engine sees them: each a flow run of its own on a work pool.

Only the run's id and the part's number are handed over. What a part does is in
`calling/worker.py`, how a run gathers what its parts did in `calling/coordinator.py`.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from prefect import get_client
from prefect.client.schemas.objects import DeploymentStatus, WorkPoolStatus
from prefect.context import FlowRunContext
from prefect.deployments import arun_deployment
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_API_URL
from prefect.states import Cancelled

from nightscreen.calling import coordinator as gathers
from nightscreen.calling import worker
from nightscreen.calling.control import StopReason
from nightscreen.config.settings import read_settings
from nightscreen.schemas.errors import SettingsError
from nightscreen.tasks.cancellation import PATIENCE_S, handle_sigterm, shield_until_done
from nightscreen.tasks.checks import BY_CHECK
from nightscreen.tasks.logs import set_up_logs
from nightscreen.tasks.open_run import tried
from nightscreen.tasks.run_in_engine import OpenScreening
from nightscreen.tasks.temporary_server import is_temporary

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from uuid import UUID

    from prefect.client.orchestration import PrefectClient
    from prefect.client.schemas.objects import FlowRun

    from nightscreen.calling.worker import WorkerPart
    from nightscreen.config.parameters import ScreenBatch
    from nightscreen.config.settings import Settings

DEPLOYMENT = "screen-part/part"
_ALONE = "run with one worker"
LOOK_S = 5.0
"""How often the engine is asked about a part that has not shown itself."""


class PoolCrew:
    """Starts parts of one run as flow runs of the deployment."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._started: dict[int, UUID] = {}
        self._looked: dict[int, float] = {}

    async def start(self, part: int) -> None:
        """Start a part; an engine that cannot be reached now is asked again later."""
        started = await tried(
            arun_deployment(
                DEPLOYMENT,
                parameters={"run_id": self._run_id, "part": part},
                flow_run_name=f"{self._run_id}-part-{part}",
                timeout=0,
            )
        )
        self._looked[part] = asyncio.get_running_loop().time()
        if started is None:
            self._started.pop(part, None)
        else:
            self._started[part] = started.id

    async def came_to_nothing(self, part: int) -> bool:
        """Return whether what was started for a part has ended, as far as the engine knows."""
        now = asyncio.get_running_loop().time()
        if now - self._looked.get(part, 0.0) < LOOK_S:
            return False
        self._looked[part] = now
        if part not in self._started:
            return True
        found = await self._read(self._started[part])
        return found is not None and found.state is not None and found.state.is_final()

    async def call_off(self) -> None:
        """Cancel what was started and has not begun: nobody waits for it any more."""
        async with get_client() as client:
            for flow_run_id in self._started.values():
                found = await self._read(flow_run_id)
                if found is not None and found.state is not None and found.state.is_scheduled():
                    await tried(client.set_flow_run_state(flow_run_id, Cancelled()))

    async def _read(self, flow_run_id: UUID) -> FlowRun | None:
        async with get_client() as client:
            found: FlowRun | None = await tried(client.read_flow_run(flow_run_id))
            return found


def require_server(wish: str) -> None:
    """Refuse what needs a server that other processes see.

    Raises:
        SettingsError: there is only a temporary one.
    """
    url = PREFECT_API_URL.value()
    if not url or is_temporary(url):
        raise SettingsError(
            f"{wish} needs a Prefect server that runs: set PREFECT_API_URL, see docs/deploy.md"
        )


async def require_worker_available(parameters: ScreenBatch, settings: Settings) -> None:
    """Refuse several workers where no part could ever begin; nothing is begun or spent before.

    Raises:
        SettingsError: there is no server, parts are not deployed on it, or nobody would take them.
    """
    if parameters.quote_only:
        return
    workers = await asyncio.to_thread(gathers.workers_wanted, parameters, settings)
    if workers <= 1:
        return
    require_server("more than one worker")
    async with get_client() as client:
        why = await tried(worker_problem(client, mine=_own_pool()))
    if why:
        raise SettingsError(why)


def _own_pool() -> str | None:
    """Return the work pool that this very run came from, None where it came from none."""
    context = FlowRunContext.get()
    found = None if context is None else context.flow_run
    return None if found is None else found.work_pool_name


async def worker_problem(client: PrefectClient, *, mine: str | None = None) -> str:
    """Return why no part could begin and what to do about it, empty where one could.

    Args:
        client: the engine's.
        mine: a work pool that has a worker, whatever the engine has heard of it of late.
    """
    try:
        deployment = await client.read_deployment_by_name(DEPLOYMENT)
    except ObjectNotFound:
        return (
            f"more than one worker needs the deployment {DEPLOYMENT}, which this Prefect server "
            "does not know: prefect --no-prompt deploy --all, see docs/deploy.md"
        )
    name = deployment.work_pool_name
    if name is None:  # served by a process of its own
        served = deployment.status == DeploymentStatus.READY
        return "" if served else f"no process serves {DEPLOYMENT}: start one, or {_ALONE}"
    try:
        status = (await client.read_work_pool(name)).status
    except ObjectNotFound:
        return (
            f"the work pool {name}, which is to take the parts of a run, does not exist: "
            f"prefect work-pool create {name} --type process, see docs/deploy.md"
        )
    if status == WorkPoolStatus.PAUSED:
        return (
            f"the work pool {name}, which takes the parts of a run, is paused: "
            f"prefect work-pool resume {name}, or {_ALONE}"
        )
    if status == WorkPoolStatus.NOT_READY and name != mine:
        return (
            f"no worker of the work pool {name} runs, so that nobody would take up a part: "
            f"prefect worker start --pool {name}, or {_ALONE}"
        )
    return ""


@asynccontextmanager
async def parts_called(run: OpenScreening) -> AsyncIterator[gathers.Gathering | None]:
    """Call the parts of a run while the body runs; None where they are not worth it."""
    if not await asyncio.to_thread(gathers.is_worth_it, run.funded):
        yield None
        return
    crew = PoolCrew(run.run_id)
    run.sessions += 1

    async def ask(check: str, name: str) -> None:
        await BY_CHECK[check](run, name)

    gathering = await asyncio.to_thread(gathers.open_gathering, run.funded, run.sessions, crew, ask)
    try:
        await gathers.call_parts(gathering)
        yield gathering
    except asyncio.CancelledError:
        run.control.stop_run(StopReason.CANCELLED)
        raise
    finally:
        await shield_until_done(_let_go(gathering, crew))


async def _let_go(gathering: gathers.Gathering, crew: PoolCrew) -> None:
    await gathers.let_go(gathering)
    await crew.call_off()


# --- inside a part ---


@asynccontextmanager
async def part_opened(
    run_id: str, number: int
) -> AsyncIterator[tuple[WorkerPart, OpenScreening] | None]:
    """Open a part, and the run as its tasks take it; None where it is not wanted any more."""
    settings = read_settings()
    set_up_logs(settings.log_format)
    part = await asyncio.to_thread(worker.open_part, run_id, number, settings)
    if part is None:
        yield None
        return
    run = OpenScreening(part.run)

    def heed_signal() -> None:
        part.leaves = part.leaves or run.signalled  # before anyone hands in what the stop cut short

    part.run.control.on_stop(heed_signal)
    try:
        rounds = run.rounds = part.open_rounds()
        run.session = rounds.session
        with handle_sigterm(run):
            try:
                async with _heeding(part, run):
                    yield part, run
            finally:
                await shield_until_done(run.settle())
    finally:
        part.leaves = part.leaves or run.signalled
        await asyncio.to_thread(part.close)


@asynccontextmanager
async def _heeding(part: WorkerPart, run: OpenScreening) -> AsyncIterator[None]:
    """Tell the run how far the part has come, and hear of its stops, while the body runs."""
    loop = asyncio.get_running_loop()
    heeding = loop.create_task(_heed(part, run))
    try:
        yield
    finally:
        heeding.cancel()
        await asyncio.wait([heeding])


async def _heed(part: WorkerPart, run: OpenScreening) -> None:
    """Heed the run; a journal that fails stops the part, which tells of it."""
    cut_at: float | None = None
    loop = asyncio.get_running_loop()
    while True:
        part.leaves = part.leaves or run.signalled
        look = loop.create_task(worker.exchange(part))
        await asyncio.wait([look])
        fault = None if look.cancelled() else look.exception()
        if isinstance(fault, Exception) and run.session is not None:
            run.session.writer.breaks(fault)
            part.leaves = True
            part.run.control.stop_run(StopReason.CANCELLED)
            return
        if part.run.control.stop == StopReason.CANCELLED and cut_at is None:
            cut_at = loop.time() + PATIENCE_S
        if cut_at is not None and loop.time() >= cut_at:
            await run.cut()
        await asyncio.sleep(worker.POLL_S)
