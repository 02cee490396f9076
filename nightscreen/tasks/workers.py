"""Workers as the engine sees them: each a flow run of its own on a work pool.

Only the run's id and the worker's number are handed over; what a worker does is in
`runs/worker.py`.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from prefect import get_client
from prefect.deployments import arun_deployment
from prefect.settings import PREFECT_API_URL
from prefect.states import Cancelled

from nightscreen.config.settings import read_settings
from nightscreen.runs.screening import ask_check
from nightscreen.runs.worker import LOOK_S, Totals, exchange, leave, open_worker
from nightscreen.schemas.errors import SettingsError
from nightscreen.schemas.stops import StopReason
from nightscreen.tasks.cancellation import PATIENCE_S, handle_sigterm, shield_until_done
from nightscreen.tasks.engine_run import EngineRunner
from nightscreen.tasks.server import tried
from nightscreen.tasks.temporary_server import is_temporary

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from uuid import UUID

    from nightscreen.calling.asking import Asking
    from nightscreen.runs.screening_run import ScreeningRun

DEPLOYMENT = "screen-part/part"
LEAST_LOOKUPS = 100
"""Lookups a worker below which starting processes would take longer than asking does."""
LET_GO_S = 20.0  # how long workers have to settle where the run has stopped


async def start_workers(run_id: str, number: int) -> list[UUID]:
    """Start workers of a run as flow runs of the deployment; return those that were started.

    Where the deployment is missing or nobody takes its runs, the run's own process asks alone.
    """
    started = []
    for part in range(1, number + 1):
        found = await tried(
            arun_deployment(
                DEPLOYMENT,
                parameters={"run_id": run_id, "part": part},
                flow_run_name=f"{run_id}-part-{part}",
                timeout=0,
            ),
            f"no worker was started as {DEPLOYMENT}",
        )
        if found is not None:
            started.append(found.id)
    return started


async def call_off(started: Iterable[UUID]) -> None:
    """Cancel workers that have not begun: nobody waits for them any more."""
    async with get_client() as client:
        for flow_run_id in started:
            found = await tried(client.read_flow_run(flow_run_id))
            if found is not None and found.state is not None and found.state.is_scheduled():
                await tried(client.set_flow_run_state(flow_run_id, Cancelled()))


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


class ScreeningRunner(EngineRunner):
    """Carries a screening run's stations; has workers ask too, where there is enough to ask."""

    run: ScreeningRun

    @asynccontextmanager
    async def sharing(self, asking: Asking) -> AsyncIterator[None]:
        """Have workers ask while the body does, and add up what they report."""
        run, number = self.run, self.run.parameters.workers
        left = sum(each.wanted - each.done for each in run.progress.values())
        if number == 1 or run.stops.reason is not None or left < LEAST_LOOKUPS * number:
            yield
            return
        started = await start_workers(run.run_id, number)
        totals = Totals()
        looking = asyncio.get_running_loop().create_task(_keep_looking(asking, totals))
        try:
            yield
            await _workers_left(run)
        finally:
            looking.cancel()
            await asyncio.wait([looking])
            await shield_until_done(call_off(started))
            await shield_until_done(totals.look(asking))


async def _keep_looking(asking: Asking, totals: Totals) -> None:
    """Add up what the workers report, and pass stops on; what fails stops the asking."""
    try:
        while True:
            await totals.look(asking)
            await asyncio.sleep(LOOK_S)
    except Exception as error:  # noqa: BLE001 - every check's task gets it
        asking.writer.breaks(error)


async def _workers_left(run: ScreeningRun) -> None:
    """Wait until no living worker has a call under way that the closing balance would miss.

    After a stop it is waited for no longer than a call may take: a suspended worker lives on.
    """
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + LET_GO_S
    while await asyncio.to_thread(run.journal.askers.asks_elsewhere, run.run_id):
        if run.stops.reason is not None and loop.time() >= give_up_at:
            return
        await asyncio.sleep(LOOK_S)


# --- inside a worker ---


async def work(run_id: str) -> dict[str, int]:
    """Ask lookups of a run as one of its workers; return attempts made, by check.

    Raises:
        SettingsError: this machine lacks the service's address or key.
        JournalError: the journal of this machine does not know the run.
    """
    asking = await asyncio.to_thread(open_worker, run_id, read_settings())
    if asking is None:  # the run does not ask any more
        return {}
    run, runner = asking.run, EngineRunner()

    def told() -> None:
        asking.leaves = True

    try:
        with handle_sigterm(run.stops, told, asking.client.aclose):
            heeding = asyncio.get_running_loop().create_task(_heed(asking))
            try:
                async with asyncio.TaskGroup() as group:
                    for check in run.operations:
                        group.create_task(ask_check(check, asking, runner))
            finally:
                heeding.cancel()
                await asyncio.wait([heeding])
                await shield_until_done(leave(asking))
    finally:
        await asyncio.to_thread(run.close)
    return {check: each.attempts for check, each in run.progress.items()}


async def _heed(asking: Asking) -> None:
    """Heed the run; a journal that fails stops the worker."""
    cut_at: float | None = None
    stops, loop = asking.run.stops, asyncio.get_running_loop()
    while True:
        try:
            await exchange(asking)
        except Exception as error:  # noqa: BLE001 - every check's task gets it
            asking.writer.breaks(error)
            asking.leaves = True
            stops.stop(StopReason.CANCELLED)
            return
        if stops.reason == StopReason.CANCELLED and cut_at is None:
            cut_at = loop.time() + PATIENCE_S
        if cut_at is not None and loop.time() >= cut_at:
            await asking.client.aclose()
        await asyncio.sleep(LOOK_S)
