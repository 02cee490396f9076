"""OpenTelemetry: measures of runs, where an exporter is configured by its own variables.

The only module that knows OpenTelemetry. Where OTEL_EXPORTER_OTLP_ENDPOINT (or that of metrics) is
not set, nothing of it is imported and nothing is counted. Ids, words and numbers only.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from nightscreen.schemas.money import MICRO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry.metrics import CallbackOptions, Observation
    from opentelemetry.sdk.metrics import MeterProvider

    from nightscreen.calling.progress import CheckProgress
    from nightscreen.calling.run import Run
    from nightscreen.client.classify import CallOutcome

    Point = tuple[float, dict[str, str]]
    """A value, and what it is about beside the run."""

NAME = "nightscreen"
FLUSH_MS = 5_000
"""How long the end of a run may take to hand in what was measured."""
ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 45, 75)
"""Bounds of the latency histogram; the last is the longest timeout."""
BY_CHECK: tuple[tuple[str, str, Callable[[CheckProgress], float]], ...] = (
    ("in_flight", "{call}", lambda each: each.in_flight),
    ("cap", "{call}", lambda each: each.cap),
    ("spend", "NGN", lambda each: each.cost_micro / MICRO),
    ("lookups.done", "{lookup}", lambda each: each.done),
    ("lookups.wanted", "{lookup}", lambda each: each.wanted),
)
"""Live numbers of each check of the open runs: name, unit, and how it is read."""


@dataclass(slots=True)
class Telemetry:
    """What is open while measures are taken.

    Attributes:
        measures: hands them to the exporter.
        heard: enters an attempt that came back, by check, seconds and outcome.
        runs: the runs this process has open, by id.
    """

    measures: MeterProvider
    heard: Callable[[str, float, CallOutcome], None]
    runs: dict[str, Run] = field(default_factory=dict)


_open: Telemetry | None = None


def is_wanted() -> bool:
    """Return whether an exporter is configured."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    return any(os.environ.get(name) for name in ENDPOINTS)


def use(telemetry: Telemetry | None) -> None:
    """Take measures with this from now on, or with none."""
    global _open  # noqa: PLW0603 - one per process, as exporters are
    _open = telemetry


def begin(run: Run) -> bool:
    """Take measures of a run from now on; False where no exporter is configured."""
    if _open is None and is_wanted():
        use(_from_environment())
    if _open is None:
        return False
    _open.runs[run.run_id] = run
    run.stops.heard = _open.heard
    return True


def end(run: Run) -> None:
    """Hand in what was measured of a run, and forget the run."""
    if _open is not None:
        _open.measures.force_flush(FLUSH_MS)
        _open.runs.pop(run.run_id, None)


def _from_environment() -> Telemetry | None:
    """Open an exporter as the standard variables describe it."""
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
        return None
    return assemble(PeriodicExportingMetricReader(OTLPMetricExporter()))


def assemble(reader: Any) -> Telemetry:  # noqa: ANN401 - the SDK is imported below
    """Return telemetry that hands measures to a reader of the SDK, and sets nothing globally."""
    from opentelemetry.metrics import Observation  # noqa: PLC0415 - only where wanted
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415 - only where wanted
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - only where wanted

    resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", NAME)})
    measures = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
    meter = measures.get_meter(NAME)
    calls = meter.create_counter(f"{NAME}.calls", unit="{call}", description="Attempts made.")
    took = meter.create_histogram(
        f"{NAME}.call.duration",
        unit="s",
        description="From sending to the whole answer.",
        explicit_bucket_boundaries_advisory=SECONDS,
    )

    def heard(check: str, seconds: float, outcome: CallOutcome) -> None:
        which = {"check": check, "verdict": str(outcome.verdict)}
        said = {"outcome": str(outcome.outcome or ""), "trouble": str(outcome.trouble or "")}
        calls.add(1, {**which, **said})
        took.record(seconds, which)

    found = Telemetry(measures, heard)

    def gauge(name: str, unit: str, read: Callable[[Run], Iterable[Point]]) -> None:
        def observed(_options: CallbackOptions) -> Iterable[Observation]:
            return [
                Observation(value, {"run_id": run.run_id, **about})
                for run in list(found.runs.values())
                for value, about in read(run)
            ]

        meter.create_observable_gauge(f"{NAME}.{name}", [observed], unit=unit)

    for name, unit, value in BY_CHECK:
        gauge(name, unit, partial(_of_each_check, value=value))
    gauge("balance", "NGN", _balance)
    return found


def _of_each_check(run: Run, value: Callable[[CheckProgress], float]) -> list[Point]:
    return [(value(each), {"check": check}) for check, each in run.progress.items()]


def _balance(run: Run) -> list[Point]:
    micro = run.wallet.balance_micro
    return [] if micro is None else [(micro / MICRO, {})]
