"""Watch a run while it is open: write its vital signs, send pages, record metrics.

`ops.vitals` decides when an alarm is due; a failure here never stops the run. An event
`nightscreen.page.*` is sent only for what needs a person at once, `nightscreen.morning` once a
night. They hold numbers, ids and reasons. Automations decide who is notified. OpenTelemetry metrics
are recorded if the process's variables name an exporter; otherwise its SDK is not imported. None of
it holds personal data.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import asynccontextmanager, contextmanager
from functools import cache
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
from nightscreen.tasks.server import beside, tried

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from nightscreen.calling.run import Run
    from nightscreen.client.classify import CallOutcome


EVERY_S = 2.0  # a choice: the greatest age of the vital signs, as docs/operate.md says
WORDS: Mapping[Alarm, str] = {
    Alarm.NOT_STARTED: "a run could not begin",
    Alarm.AUTH: "the service refuses the API key, or an operation it has no right to",
    Alarm.TEST_MODE: "the service is in test mode: nothing it says counts",
    Alarm.OUTAGE: "the service has given no answer for more than 15 minutes",
    Alarm.DEADLINE: "the deadline cannot be met",
    Alarm.DISK: "the disk is nearly full",
}
_NAME = "nightscreen"
_FLUSH_MS = 5_000  # how long the end of a run may wait for the export of its metrics
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 45, 75)
"""Bounds of the latency histogram; the last is the longest timeout."""


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
    monitor, metrics = RunMonitor(run, phase), meter()

    async def watch() -> None:
        while True:
            await tried(monitor.look(), "the run could not be looked at")
            await asyncio.sleep(EVERY_S)

    await asyncio.to_thread(sweep_vitals, run.settings.home)
    if metrics is not None:
        run.stops.on_attempt = metrics.record_attempt
    try:
        async with beside(watch()):
            yield
    finally:
        await tried(monitor.look(), "the run could not be looked at")
        if metrics is not None:
            await asyncio.to_thread(metrics.flush)


@contextmanager
def paging_false_starts(
    batch: str, run_id: str, has_begun: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    """Send a page if a scheduled run could not begin: nobody watches it.

    Args:
        batch: its batch name; empty if not known yet.
        run_id: the run to resume; empty for a new run.
        has_begun: whether the run is open by now, so that an error needs no page.
    """
    try:
        yield
    except NightscreenError as error:
        context = FlowRunContext.get()
        is_scheduled = context is not None and getattr(context.flow_run, "auto_scheduled", False)
        if is_scheduled and not has_begun():
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


# --- metrics ---


class Meter:
    """Records this process's calls through a reader of the SDK; sets nothing globally."""

    def __init__(self, reader: Any) -> None:  # noqa: ANN401 - the SDK is imported below
        from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415 - only where wanted
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - as above

        resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", _NAME)})
        self._provider = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        meter = self._provider.get_meter(_NAME)
        self._calls = meter.create_counter(f"{_NAME}.calls", unit="{call}")
        self._seconds = meter.create_histogram(
            f"{_NAME}.call.duration", unit="s", explicit_bucket_boundaries_advisory=_SECONDS
        )

    def record_attempt(self, check: str, seconds: float, outcome: CallOutcome) -> None:
        """Record an attempt that was answered or failed."""
        labels = {"check": check, "verdict": str(outcome.verdict)}
        result = {"outcome": str(outcome.outcome or ""), "trouble": str(outcome.trouble or "")}
        self._calls.add(1, {**labels, **result})
        self._seconds.record(seconds, labels)

    def flush(self) -> None:
        """Export the metrics at the end of a run."""
        self._provider.force_flush(_FLUSH_MS)


@cache
def meter() -> Meter | None:
    """Return this process's meter; None if no exporter is configured or installed."""
    off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if off or not any(os.environ.get(name) for name in _ENDPOINTS):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http import metric_exporter  # noqa: PLC0415 - only where wanted
        from opentelemetry.sdk.metrics import export  # noqa: PLC0415 - as above
    except ImportError:
        logging.getLogger(__name__).warning("pip install 'nightscreen[otel]' for OpenTelemetry")
        return None
    return Meter(export.PeriodicExportingMetricReader(metric_exporter.OTLPMetricExporter()))
