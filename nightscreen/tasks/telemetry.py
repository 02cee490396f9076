"""OpenTelemetry metrics of this process's runs, if its own variables name an exporter.

Otherwise nothing of it is imported. Metrics hold no personal data.
"""

from __future__ import annotations

import logging
import os
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nightscreen.client.classify import CallOutcome

NAME = "nightscreen"
FLUSH_MS = 5_000  # how long the end of a run may wait for the export
ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 45, 75)
"""Bounds of the latency histogram; the last is the longest timeout."""


class Meter:
    """Records this process's calls through a reader of the SDK; sets nothing globally."""

    def __init__(self, reader: Any) -> None:  # noqa: ANN401 - the SDK is imported below
        from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415 - only where wanted
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - as above

        resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", NAME)})
        self._provider = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        meter = self._provider.get_meter(NAME)
        self._calls = meter.create_counter(f"{NAME}.calls", unit="{call}")
        self._seconds = meter.create_histogram(
            f"{NAME}.call.duration", unit="s", explicit_bucket_boundaries_advisory=SECONDS
        )

    def record_attempt(self, check: str, seconds: float, outcome: CallOutcome) -> None:
        """Record an attempt that was answered or failed."""
        labels = {"check": check, "verdict": str(outcome.verdict)}
        result = {"outcome": str(outcome.outcome or ""), "trouble": str(outcome.trouble or "")}
        self._calls.add(1, {**labels, **result})
        self._seconds.record(seconds, labels)

    def flush(self) -> None:
        """Export the metrics at the end of a run."""
        self._provider.force_flush(FLUSH_MS)


@cache
def meter() -> Meter | None:
    """Return this process's meter; None if no exporter is configured or installed."""
    off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if off or not any(os.environ.get(name) for name in ENDPOINTS):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http import metric_exporter  # noqa: PLC0415 - only where wanted
        from opentelemetry.sdk.metrics import export  # noqa: PLC0415 - as above
    except ImportError:
        logging.getLogger(__name__).warning("pip install 'nightscreen[otel]' for OpenTelemetry")
        return None
    return Meter(export.PeriodicExportingMetricReader(metric_exporter.OTLPMetricExporter()))
