"""OpenTelemetry: one meter for the runs of this process, where its own variables name an exporter.

Where none is named, nothing of it is imported and nothing is counted. Ids, words and numbers only.
"""

from __future__ import annotations

import logging
import os
from functools import partial
from typing import TYPE_CHECKING, Any

from nightscreen.schemas.money import MICRO

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nightscreen.calling.run import Run
    from nightscreen.client.classify import CallOutcome

NAME = "nightscreen"
FLUSH_MS = 5_000  # how long the end of a run may take to hand in what was measured
ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 45, 75)
"""Bounds of the latency histogram; the last is the longest timeout."""
GAUGES = {
    "in_flight": "{call}",
    "cap": "{call}",
    "spend": "NGN",
    "lookups.done": "{lookup}",
    "lookups.wanted": "{lookup}",
    "balance": "NGN",
}
"""Live numbers of the open runs, with their units: of each check, and the wallet's balance."""


class Meter:
    """Hands measures of the open runs to a reader of the SDK; sets nothing globally."""

    def __init__(self, reader: Any) -> None:  # noqa: ANN401 - the SDK is imported below
        from opentelemetry.metrics import Observation  # noqa: PLC0415 - only where wanted
        from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415 - as above
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - as above

        resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", NAME)})
        self.provider = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        self._runs: dict[str, Run] = {}
        meter = self.provider.get_meter(NAME)
        self._calls = meter.create_counter(f"{NAME}.calls", unit="{call}")
        self._seconds = meter.create_histogram(
            f"{NAME}.call.duration", unit="s", explicit_bucket_boundaries_advisory=SECONDS
        )

        def observed(gauge: str, _options: object) -> Iterator[Observation]:
            points = (each for run in list(self._runs.values()) for each in _points(run))
            return (Observation(value, about) for name, value, about in points if name == gauge)

        for gauge, unit in GAUGES.items():
            meter.create_observable_gauge(f"{NAME}.{gauge}", [partial(observed, gauge)], unit=unit)

    def begin(self, run: Run) -> None:
        """Measure a run from now on."""

        def heard(check: str, seconds: float, outcome: CallOutcome) -> None:
            which = {"check": check, "verdict": str(outcome.verdict)}
            met = {"outcome": str(outcome.outcome or ""), "trouble": str(outcome.trouble or "")}
            self._calls.add(1, {**which, **met})
            self._seconds.record(seconds, which)

        self._runs[run.run_id], run.stops.heard = run, heard

    def end(self, run: Run) -> None:
        """Hand in what was measured of a run, and forget the run."""
        self.provider.force_flush(FLUSH_MS)
        self._runs.pop(run.run_id, None)


def _points(run: Run) -> Iterator[tuple[str, float, dict[str, str]]]:
    """Yield a run's live numbers: gauge, value, and what it is about."""
    for check, each in run.progress.items():
        about = {"run_id": run.run_id, "check": check}
        values = (each.in_flight, each.cap, each.cost_micro / MICRO, each.done, each.wanted)
        yield from ((gauge, value, about) for gauge, value in zip(GAUGES, values, strict=False))
    if run.wallet.balance_micro is not None:
        yield "balance", run.wallet.balance_micro / MICRO, {"run_id": run.run_id}


_meters: list[Meter] = []


def meter() -> Meter | None:
    """Return this process's meter; None where no exporter is configured or installed."""
    off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if _meters or off or not any(os.environ.get(name) for name in ENDPOINTS):
        return _meters[0] if _meters else None
    try:
        from opentelemetry.exporter.otlp.proto.http import metric_exporter  # noqa: PLC0415 - only where wanted
        from opentelemetry.sdk.metrics import export  # noqa: PLC0415 - as above
    except ImportError:
        logging.getLogger(__name__).warning("pip install 'nightscreen[otel]' for OpenTelemetry")
        return None
    exporter = metric_exporter.OTLPMetricExporter()
    _meters.append(Meter(export.PeriodicExportingMetricReader(exporter)))
    return _meters[0]
