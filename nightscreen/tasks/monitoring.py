"""Watching over a run while it is open: signs of life, alarms, log lines and measures.

Every few seconds the run's live numbers are looked at once, and handed to whoever wants them. What
they mean is decided in `runs/`; the run goes on whatever happens here.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from prefect import get_run_logger
from prefect.context import FlowRunContext
from prefect.exceptions import MissingContextError

from nightscreen.files.heartbeat import sweep_vitals, write_vitals
from nightscreen.ops.vitals import Alarms, RecentSpeed, vitals_of
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.errors import NightscreenError
from nightscreen.tasks import telemetry
from nightscreen.tasks.events import tell_alarm, tell_false_start
from nightscreen.tasks.logs import say, say_progress

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from nightscreen.calling.stops import Stops
    from nightscreen.tasks.run_in_engine import OpenRun

EVERY_S = 2.0
_MINUTE_S = 60.0
_LOOKS_A_LINE = 5
"""Looks between two lines of progress in a structured log."""


class Minutes:
    """Writes one line for each minute that a run waits, with what it waits for."""

    def __init__(self) -> None:
        self._since: int | None = None
        self._next_at = 0.0

    def say(self, run_id: str, stops: Stops) -> None:
        """Write a line where another minute of waiting is over, by a clock nobody sets back."""
        reason, since = stops.waiting or ("", None)
        at = asyncio.get_running_loop().time()
        if since != self._since:
            self._since, self._next_at = since, at + _MINUTE_S
        if since is None or at < self._next_at:
            return
        self._next_at += _MINUTE_S
        say("waiting", run_id=run_id, waiting_for=reason, since=instant_text(since))
        with suppress(MissingContextError):
            get_run_logger().info("waits since %s for %s", instant_text(since), reason)


class RunMonitor:
    """Looks at one run; keeps what it has told."""

    def __init__(self, run: OpenRun[Any]) -> None:
        self._run = run
        self._pace = RecentSpeed()
        self._alarms = Alarms()
        self._looks = 0
        self._minutes = Minutes()
        self._us = {"pid": os.getpid(), "host": socket.gethostname(), "every_s": EVERY_S}

    async def keep(self) -> None:
        """Look again and again until cancelled."""
        while True:
            await self.look_safely()
            await asyncio.sleep(EVERY_S)

    async def look_safely(self) -> None:
        """Look once; a fault in watching never stops a run, it is only noted."""
        look = asyncio.get_running_loop().create_task(self.look())
        await asyncio.wait([look])
        if not look.cancelled() and look.exception() is not None:
            kind = type(look.exception()).__name__
            logging.getLogger(__name__).warning("the run could not be looked at: %s", kind)

    async def look(self) -> dict[str, Any]:
        """Look once: write the signs down and tell what is due."""
        run = self._run.run
        now = run.clock()
        self._pace.take(run.stops, now)
        signs = vitals_of(run, self._pace, now, phase=self._run.phase)
        signs |= self._us
        await asyncio.to_thread(write_vitals, run.settings.home, run.run_id, signs)
        for alarm in self._alarms.due(signs):
            say("page", run_id=run.run_id, page=alarm.value)
            tell_alarm(alarm, signs)
        if self._looks % _LOOKS_A_LINE == 0:
            say_progress(signs)
        self._minutes.say(run.run_id, run.stops)
        self._looks += 1
        return signs


@asynccontextmanager
async def watching(run: OpenRun[Any]) -> AsyncIterator[None]:
    """Watch over a run of any flow while the body runs; one that is only quoted needs none."""
    if run.run.only_quotes:
        yield
        return
    watch = RunMonitor(run)
    await asyncio.to_thread(sweep_vitals, run.run.settings.home)
    keeper = asyncio.get_running_loop().create_task(watch.keep())
    say("run_opened", run_id=run.run_id, flow=run.run.flow, batch=run.run.batch)
    measured = telemetry.begin(run.run)
    try:
        yield
    finally:
        keeper.cancel()
        await asyncio.wait([keeper])
        await watch.look_safely()
        if measured:
            await asyncio.to_thread(telemetry.end, run.run)
        say("run_closed", run_id=run.run_id)


@contextmanager
def telling_false_starts(batch: str, run_id: str) -> Iterator[None]:
    """Tell a run that could not even begin, since nothing else would tell of it before morning."""
    try:
        yield
    except NightscreenError as error:
        say("not_started", error=type(error).__name__)
        if _is_scheduled():
            tell_false_start(batch, run_id, error)
        raise


def _is_scheduled() -> bool:
    """Return whether a schedule started this run, so that nobody sits before it."""
    context = FlowRunContext.get()
    return context is not None and bool(getattr(context.flow_run, "auto_scheduled", False))
