"""Watching over a run while it is open: signs of life, pages and measures.

Every few seconds the run's live numbers are looked at once. What they mean is decided in
`ops.vitals`; the run goes on whatever happens here.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from prefect.context import FlowRunContext

from nightscreen.files.heartbeat import sweep_vitals, write_vitals
from nightscreen.ops.vitals import Alarms, RecentSpeed, vitals_of
from nightscreen.schemas.errors import NightscreenError
from nightscreen.tasks import events, telemetry
from nightscreen.tasks.server import tried

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from nightscreen.calling.run import Run


EVERY_S = 2.0


class RunMonitor:
    """Looks at one run; keeps what it has sent."""

    def __init__(self, run: Run, phase: Callable[[], str]) -> None:
        self._run = run
        self._phase = phase
        self._pace = RecentSpeed()
        self._alarms = Alarms()

    async def keep(self) -> None:
        """Look again and again until cancelled."""
        while True:
            await tried(self.look(), "the run could not be looked at")
            await asyncio.sleep(EVERY_S)

    async def look(self) -> dict[str, Any]:
        """Look once: write the signs down and send the pages that are due."""
        run = self._run
        now = run.clock()
        self._pace.take(run.stops, now)
        us = {"pid": os.getpid(), "host": socket.gethostname()}
        signs = vitals_of(run, self._pace, now, phase=self._phase()) | us
        await asyncio.to_thread(write_vitals, run.settings.home, run.run_id, signs)
        for alarm in self._alarms.due(signs):
            events.page(alarm, signs)
        return signs


@asynccontextmanager
async def watching(run: Run, phase: Callable[[], str]) -> AsyncIterator[None]:
    """Watch over a run of any flow while the body runs; one that is only quoted needs none."""
    if run.only_quotes:
        yield
        return
    monitor, meter = RunMonitor(run, phase), telemetry.meter()
    await asyncio.to_thread(sweep_vitals, run.settings.home)
    keeper = asyncio.get_running_loop().create_task(monitor.keep())
    if meter is not None:
        meter.begin(run)
    try:
        yield
    finally:
        keeper.cancel()
        await asyncio.wait([keeper])
        await tried(monitor.look(), "the run could not be looked at")
        if meter is not None:
            await asyncio.to_thread(meter.end, run)


@contextmanager
def paging_false_starts(batch: str, run_id: str) -> Iterator[None]:
    """Page where a scheduled run could not even begin: nobody sits before it to read the error."""
    try:
        yield
    except NightscreenError as error:
        context = FlowRunContext.get()
        if context is not None and getattr(context.flow_run, "auto_scheduled", False):
            events.false_start(batch, run_id, error)
        raise
