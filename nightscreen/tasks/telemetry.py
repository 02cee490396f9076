"""OpenTelemetry: spans and measures of runs, where an exporter is configured by its own variables.

The only module that knows OpenTelemetry. Where OTEL_EXPORTER_OTLP_ENDPOINT (or that of traces or
metrics) is not set, nothing of it is imported and nothing is counted. A span for the run, one for
each station and one for each check; never one for a lookup, of which there are too many. Ids, words
and numbers only.
"""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nightscreen.config.settings import PREFIX
from nightscreen.schemas.money import MICRO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from opentelemetry.metrics import CallbackOptions, Observation
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

    from nightscreen.calling.progress import CheckProgress
    from nightscreen.calling.run import Run
    from nightscreen.client.classify import CallOutcome

NAME = PREFIX.rstrip("_").lower()
FLUSH_MS = 5_000
"""How long the end of a run may take to hand in what was measured."""
ENDPOINTS = tuple(f"OTEL_EXPORTER_OTLP{kind}_ENDPOINT" for kind in ("", "_TRACES", "_METRICS"))
SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 45, 75)
"""Bounds of the latency histogram; the last is the longest timeout."""
_MISSING = "OpenTelemetry is configured but not installed: pip install 'nightscreen[otel]'"


@dataclass(slots=True)
class Telemetry:
    """What is open while measures are taken.

    Attributes:
        runs: the runs this process has open.
        heard: enters an attempt that came back, by check, seconds and reading.
    """

    tracer: Tracer
    traces: TracerProvider
    measures: MeterProvider
    heard: Callable[[str, float, CallOutcome], None]
    runs: dict[str, Run] = field(default_factory=dict)


_open: Telemetry | None = None


def is_wanted() -> bool:
    """Return whether an exporter is configured."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    return any(os.environ.get(name) for name in ENDPOINTS)


def begin(run: Run) -> bool:
    """Take measures of a run from now on; False where no exporter is configured."""
    if _open is None and is_wanted():
        use(_from_environment())
    if _open is None:
        return False
    _open.runs[run.run_id] = run
    run.stops.heard = _open.heard
    return True


def use(telemetry: Telemetry | None) -> None:
    """Take measures with this from now on, or with none."""
    global _open  # noqa: PLW0603 - one per process, as exporters are
    _open = telemetry


def end(run: Run) -> None:
    """Hand in what was measured of a run."""
    if _open is None:
        return
    _open.traces.force_flush(FLUSH_MS)
    _open.measures.force_flush(FLUSH_MS)
    _open.runs.pop(run.run_id, None)


def span(name: str, *ids: object) -> AbstractContextManager[None]:
    """Return a span of a run, a station, a check or a shard; nothing where none is wanted.

    Args:
        name: what is done.
        ids: the run's id, then the shard's name where it is one of a shard of a pull.
    """
    if _open is None:
        return nullcontext()
    return _spanning(_open.tracer, name, ids)


@contextmanager
def _spanning(tracer: Tracer, name: str, ids: tuple[object, ...]) -> Iterator[None]:
    attributes = dict(zip((f"{NAME}.run_id", f"{NAME}.shard"), map(str, ids), strict=False))
    from opentelemetry.trace import StatusCode  # noqa: PLC0415 - only where wanted

    # an exception's text is kept out: what is not ours could quote a row
    with tracer.start_as_current_span(
        f"{NAME}.{name}",
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as under_way:
        try:
            yield
        except BaseException:
            under_way.set_status(StatusCode.ERROR)
            raise


def _from_environment() -> Telemetry | None:
    """Open exporters as the standard variables describe them."""
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415 - only where wanted
            OTLPMetricExporter,
        )
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - only where wanted
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.metrics.export import (  # noqa: PLC0415 - only where wanted
            PeriodicExportingMetricReader,
        )
        from opentelemetry.sdk.trace.export import (  # noqa: PLC0415 - only where wanted
            BatchSpanProcessor,
        )
    except ImportError:
        logging.getLogger(__name__).warning(_MISSING)
        return None
    return assemble(
        BatchSpanProcessor(OTLPSpanExporter()), PeriodicExportingMetricReader(OTLPMetricExporter())
    )


def assemble(processor: Any, reader: Any) -> Telemetry:  # noqa: ANN401 - the SDK is imported below
    """Return telemetry that hands spans to a processor and measures to a reader of the SDK.

    The providers are ours alone and not set for the whole process: the engine would else add spans
    of its own to ours.
    """
    from opentelemetry.sdk import metrics  # noqa: PLC0415 - only where wanted
    from opentelemetry.sdk import trace as tracing  # noqa: PLC0415 - only where wanted
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - only where wanted

    name = os.environ.get("OTEL_SERVICE_NAME", NAME)
    resource = Resource.create({"service.name": name})
    traces = tracing.TracerProvider(resource=resource, shutdown_on_exit=False)
    traces.add_span_processor(processor)
    measures = metrics.MeterProvider([reader], resource=resource, shutdown_on_exit=False)
    runs: dict[str, Run] = {}
    heard = _listener(measures)
    _observe(measures, runs)
    return Telemetry(traces.get_tracer(NAME), traces, measures, heard, runs)


def _listener(measures: MeterProvider) -> Callable[[str, float, CallOutcome], None]:
    """Return what enters each attempt that came back."""
    meter = measures.get_meter(NAME)
    calls = meter.create_counter(f"{NAME}.calls", unit="{call}", description="Attempts made.")
    took = meter.create_histogram(
        f"{NAME}.call.duration",
        unit="s",
        description="From sending to the whole answer.",
        explicit_bucket_boundaries_advisory=SECONDS,
    )

    def heard(check: str, seconds: float, reading: CallOutcome) -> None:
        trouble = "" if reading.trouble is None else str(reading.trouble)
        outcome = "" if reading.outcome is None else str(reading.outcome)
        which = {"check": check, "verdict": str(reading.verdict)}
        calls.add(1, {**which, "outcome": outcome, "trouble": trouble})
        took.record(seconds, which)

    return heard


def _observe(measures: MeterProvider, runs: dict[str, Run]) -> None:
    """Have a run's live numbers read whenever measures are taken."""
    meter = measures.get_meter(NAME)
    by_check: tuple[tuple[str, str, Callable[[CheckProgress], float]], ...] = (
        ("in_flight", "{call}", lambda each: each.in_flight),
        ("cap", "{call}", lambda each: each.cap),
        ("spend", "NGN", lambda each: each.cost_micro / MICRO),
        ("lookups.done", "{lookup}", lambda each: each.done),
        ("lookups.wanted", "{lookup}", lambda each: each.wanted),
    )
    for name, unit, value in by_check:
        meter.create_observable_gauge(f"{NAME}.{name}", [_each_check(runs, value)], unit=unit)
    meter.create_observable_gauge(f"{NAME}.balance", [_balance(runs)], unit="NGN")


def _each_check(
    runs: dict[str, Run], value: Callable[[CheckProgress], float]
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    from opentelemetry.metrics import Observation  # noqa: PLC0415 - only where wanted

    def observed(_options: CallbackOptions) -> Iterable[Observation]:
        return [
            Observation(value(each), {"run_id": run.run_id, "check": check})
            for run in list(runs.values())
            for check, each in run.progress.items()
        ]

    return observed


def _balance(runs: dict[str, Run]) -> Callable[[CallbackOptions], Iterable[Observation]]:
    from opentelemetry.metrics import Observation  # noqa: PLC0415 - only where wanted

    def observed(_options: CallbackOptions) -> Iterable[Observation]:
        return [
            Observation(run.wallet.balance_micro / MICRO, {"run_id": run.run_id})
            for run in list(runs.values())
            if run.wallet.balance_micro is not None
        ]

    return observed
