"""Watch a run while it is open: write its vital signs, send pages, record metrics.

`ops.vitals` decides when an alarm is due; a failure here never stops the run. An event
`nightscreen.page.*` is sent only for what needs a person at once, `nightscreen.morning` once a
night. They hold numbers, ids and reasons. Automations decide who is notified.
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


EVERY_S = 2.0  # a choice: the greatest age of the vital signs, as docs/operate.md says
WORDS: Mapping[Alarm, str] = {
    Alarm.NOT_STARTED: "a run could not begin",
    Alarm.AUTH: "the service refuses the API key, or an operation it has no right to",
    Alarm.TEST_MODE: "the service is in test mode: nothing it says counts",
    Alarm.OUTAGE: "the service has given no answer for more than 15 minutes",
    Alarm.DEADLINE: "the deadline cannot be met",
    Alarm.DISK: "the disk is nearly full",
}


class RunMonitor:
    """Looks at one run; sends each alarm once."""

    def __init__(self, run: Run, phase: Callable[[], str]) -> None:
        self._run = run
        self._phase = phase
        self._pace = RecentSpeed()
        self._alarms = Alarms()

    async def look(self) -> dict[str, Any]:
        """Write the vital signs and send the pages that are due."""
        run = self._run
        now = run.clock()
        self._pace.add_sample(run.stops, now)
        process = {"pid": os.getpid(), "host": socket.gethostname()}
        signs = vitals_of(run, self._pace, now, phase=self._phase()) | process
        await asyncio.to_thread(write_vitals, run.settings.home, run.run_id, signs)
        checks = signs["checks"].values()
        free = [number for number in signs["disk_free"].values() if number is not None]
        for alarm in self._alarms.due(signs):
            payload = {
                "run_id": run.run_id,
                "lookups_done": sum(check["done"] for check in checks),
                "lookups_wanted": sum(check["wanted"] for check in checks),
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
    """Watch a run of any flow while the body runs; a quote is not watched."""
    if run.only_quotes:
        yield
        return
    monitor, meter = RunMonitor(run, phase), telemetry.meter()

    async def watch() -> None:
        while True:
            await tried(monitor.look(), "the run could not be looked at")
            await asyncio.sleep(EVERY_S)

    await asyncio.to_thread(sweep_vitals, run.settings.home)
    if meter is not None:
        run.stops.on_attempt = meter.record_attempt
    try:
        async with beside(watch()):
            yield
    finally:
        await tried(monitor.look(), "the run could not be looked at")
        if meter is not None:
            await asyncio.to_thread(meter.flush)


@contextmanager
def paging_false_starts(batch: str, run_id: str) -> Iterator[None]:
    """Send a page if a scheduled run could not begin: nobody watches it.

    Args:
        batch: its batch name; empty if not known yet.
        run_id: the run to resume; empty for a new run.
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
    """Emit the morning summary: a night's numbers, and `text` with them in words."""
    night = numbers["night"]
    resource = {
        "prefect.resource.id": f"nightscreen.night.{night}",
        "prefect.resource.name": night,
    }
    emit_event("nightscreen.morning", resource, payload={**numbers})
