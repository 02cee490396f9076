"""Watching over a run while it is open: signs of life, pages and measures.

Every few seconds the run's live numbers are looked at once. What they mean is decided in
`ops.vitals`; the run goes on whatever happens here. Events `nightscreen.page.*` are sent only for
what needs a person at once, `nightscreen.morning` once a night: numbers, ids and the reason's word.
Who is notified is an automation's.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from prefect.context import FlowRunContext
from prefect.events import emit_event

from nightscreen.ops.vitals import (
    Alarm,
    Alarms,
    RecentSpeed,
    sweep_vitals,
    vitals_of,
    write_vitals,
)
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.errors import NightscreenError
from nightscreen.tasks import telemetry
from nightscreen.tasks.server import beside, tried

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from nightscreen.calling.run import Run


EVERY_S = 2.0  # a choice: how old the signs of life are at most, as docs/operate.md says
WORDS: Mapping[Alarm, str] = {
    Alarm.NOT_STARTED: "a run could not begin",
    Alarm.AUTH: "the service refuses the API key, or an operation it has no right to",
    Alarm.TEST_MODE: "the service is in test mode: nothing it says counts",
    Alarm.OUTAGE: "the service has given no answer for more than 15 minutes",
    Alarm.DEADLINE: "the deadline cannot be met",
    Alarm.DISK: "the disk is nearly full",
}


class RunMonitor:
    """Looks at one run; keeps what it has sent."""

    def __init__(self, run: Run, phase: Callable[[], str]) -> None:
        self._run = run
        self._phase = phase
        self._pace = RecentSpeed()
        self._alarms = Alarms()

    async def look(self) -> dict[str, Any]:
        """Look once: write the signs down and send the pages that are due."""
        run = self._run
        now = run.clock()
        self._pace.add_sample(run.stops, now)
        us = {"pid": os.getpid(), "host": socket.gethostname()}
        signs = vitals_of(run, self._pace, now, phase=self._phase()) | us
        await asyncio.to_thread(write_vitals, run.settings.home, run.run_id, signs)
        checks = signs["checks"].values()
        free = [each for each in signs["disk_free"].values() if each is not None]
        for alarm in self._alarms.due(signs):
            payload = {
                "run_id": run.run_id,
                "lookups_done": sum(each["done"] for each in checks),
                "lookups_wanted": sum(each["wanted"] for each in checks),
                **{
                    at: instant_text(signs[at])
                    for at in ("finish_at", "deadline_at", "silent_since")
                },
                "disk_free_bytes": min(free, default=None),
            }
            _page(alarm, signs["batch"], payload)
        return signs


@asynccontextmanager
async def watching(run: Run, phase: Callable[[], str]) -> AsyncIterator[None]:
    """Watch over a run of any flow while the body runs; one that is only quoted needs none."""
    if run.only_quotes:
        yield
        return
    monitor, meter = RunMonitor(run, phase), telemetry.meter()

    async def keep() -> None:
        while True:
            await tried(monitor.look(), "the run could not be looked at")
            await asyncio.sleep(EVERY_S)

    await asyncio.to_thread(sweep_vitals, run.settings.home)
    if meter is not None:
        run.stops.on_attempt = meter.record_attempt
    try:
        async with beside(keep()):
            yield
    finally:
        await tried(monitor.look(), "the run could not be looked at")
        if meter is not None:
            await asyncio.to_thread(meter.flush)


@contextmanager
def paging_false_starts(batch: str, run_id: str) -> Iterator[None]:
    """Page where a scheduled run could not even begin: nobody sits before it to read the error.

    Args:
        batch: its batch name, empty where none is known yet.
        run_id: the run it was to resume, empty where it was to be a new one.
    """
    try:
        yield
    except NightscreenError as error:
        context = FlowRunContext.get()
        if context is not None and getattr(context.flow_run, "auto_scheduled", False):
            # the error's text may quote a path
            payload = {"run_id": run_id, "error": type(error).__name__}
            _page(Alarm.NOT_STARTED, batch.rstrip("-*") or "unnamed", payload)
        raise


# --- events ---


def _page(alarm: Alarm, batch: str, payload: Mapping[str, Any]) -> None:
    """Emit the page for an alarm about a batch and one of its runs."""
    run_id = payload["run_id"]
    about = {
        "prefect.resource.id": f"nightscreen.batch.{batch}",
        "prefect.resource.name": batch,
        "prefect.resource.role": "batch",
    }
    run = {
        "prefect.resource.id": f"nightscreen.run.{run_id}",
        "prefect.resource.role": "nightscreen-run",
    }
    says = {"says": WORDS[alarm], "type": f"nightscreen doctor {run_id}".rstrip()}
    emit_event(
        f"nightscreen.page.{alarm.value}",
        about,
        related=[run] if run_id else [],
        payload={**says, **payload},
    )


def send_morning(numbers: Mapping[str, Any]) -> None:
    """Emit the morning summary: a night's numbers, and `text` that says them."""
    night = numbers["night"]
    resource = {
        "prefect.resource.id": f"nightscreen.night.{night}",
        "prefect.resource.name": night,
    }
    emit_event("nightscreen.morning", resource, payload={**numbers})
