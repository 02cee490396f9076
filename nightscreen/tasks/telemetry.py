"""OpenTelemetry: one meter for the runs of this process, where its own variables name an exporter.

Where OTEL_EXPORTER_OTLP_ENDPOINT (or that of metrics) is not set, nothing of it is imported and
nothing is counted. Ids, words and numbers only.
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
FLUSH_MS = 5_000
"""How long the end of a run may take to hand in what was measured."""
ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 45, 75)
"""Bounds of the latency histogram; the last is the longest timeout."""
BY_CHECK = {
    "in_flight": ("{call}", "in_flight", 1),
    "cap": ("{call}", "cap", 1),
    "spend": ("NGN", "cost_micro", MICRO),
    "lookups.done": ("{lookup}", "done", 1),
    "lookups.wanted": ("{lookup}", "wanted", 1),
}
"""Live numbers of each check of the open runs: unit, field of its progress, and its divisor."""


class Meter:
    """Hands measures of the open runs to a reader of the SDK; sets nothing globally."""

    def __init__(self, reader: Any) -> None:  # noqa: ANN401 - the SDK is imported below
        from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415 - only where wanted
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - only where wanted

        resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", NAME)})
        self.provider = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        self._runs: dict[str, Run] = {}
        meter = self.provider.get_meter(NAME)
        self._calls = meter.create_counter(f"{NAME}.calls", unit="{call}")
        self._seconds = meter.create_histogram(
            f"{NAME}.call.duration", unit="s", explicit_bucket_boundaries_advisory=SECONDS
        )
        for name, (unit, field, divisor) in BY_CHECK.items():
            read = partial(self._of_checks, field, divisor)
            meter.create_observable_gauge(f"{NAME}.{name}", [read], unit=unit)
        meter.create_observable_gauge(f"{NAME}.balance", [self._balances], unit="NGN")

    def begin(self, run: Run) -> None:
        """Measure a run from now on."""
        self._runs[run.run_id] = run
        run.stops.heard = self._heard

    def end(self, run: Run) -> None:
        """Hand in what was measured of a run, and forget the run."""
        self.provider.force_flush(FLUSH_MS)
        self._runs.pop(run.run_id, None)

    def _heard(self, check: str, seconds: float, outcome: CallOutcome) -> None:
        which = {"check": check, "verdict": str(outcome.verdict)}
        met = {"outcome": str(outcome.outcome or ""), "trouble": str(outcome.trouble or "")}
        self._calls.add(1, {**which, **met})
        self._seconds.record(seconds, which)

    def _of_checks(self, field: str, divisor: int, _options: object) -> Iterator[Any]:
        from opentelemetry.metrics import Observation  # noqa: PLC0415 - only where wanted

        for run in list(self._runs.values()):
            for check, each in run.progress.items():
                about = {"run_id": run.run_id, "check": check}
                yield Observation(getattr(each, field) / divisor, about)

    def _balances(self, _options: object) -> Iterator[Any]:
        from opentelemetry.metrics import Observation  # noqa: PLC0415 - only where wanted

        for run in list(self._runs.values()):
            if run.wallet.balance_micro is not None:
                yield Observation(run.wallet.balance_micro / MICRO, {"run_id": run.run_id})


_meter: Meter | None = None


def meter() -> Meter | None:
    """Return this process's meter; None where no exporter is configured or installed."""
    global _meter  # noqa: PLW0603 - one per process, as exporters are
    off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if _meter is None and not off and any(os.environ.get(name) for name in ENDPOINTS):
        try:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415 - only where wanted
                OTLPMetricExporter,
            )
            from opentelemetry.sdk.metrics.export import (  # noqa: PLC0415 - only where wanted
                PeriodicExportingMetricReader,
            )
        except ImportError:
            logging.getLogger(__name__).warning(
                "OpenTelemetry is configured but not installed: pip install 'nightscreen[otel]'"
            )
        else:
            _meter = Meter(PeriodicExportingMetricReader(OTLPMetricExporter()))
    return _meter
