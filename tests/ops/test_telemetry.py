"""OpenTelemetry: measures where an exporter is configured, nothing at all elsewhere."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from nightscreen.calling.asking import Asking
from nightscreen.tasks import monitoring
from nightscreen.tasks.monitoring import Meter
from tests.money.service_in_memory import LOST, Bureau

ROWS = 12


class Kept:
    """A meter that keeps measures in memory, and measures what it is steered to."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.meter = Meter(self.reader)

    async def measure(self, asking: Asking) -> None:
        asking.run.stops.on_attempt = self.meter.record_attempt

    def points(self, name: str) -> list[Any]:
        data = self.reader.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data is not None else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


def test_calls_are_counted_by_check_outcome_and_trouble(tmp_path: Path) -> None:
    """As many as the service saw, with a histogram of how long they took."""
    kept, bureau = Kept(), Bureau(tmp_path, rows=ROWS)
    bureau.service.before = lambda _operation, _identity, number: LOST if number == 9 else None
    report = bureau.night(steer=kept.measure).report
    points = kept.points("nightscreen.calls")
    assert sum(point.value for point in points) >= len(bureau.service.ledger) - 1
    assert {point.attributes["check"] for point in points} == set(report["checks"])
    lost = [point for point in points if point.attributes["trouble"]]
    assert [(point.attributes["verdict"], point.value) for point in lost] == [("in_doubt", 1)]
    durations = kept.points("nightscreen.call.duration")
    assert sum(point.count for point in durations) == sum(point.value for point in points)
    assert all(1.0 <= point.sum / point.count < 1.1 for point in durations)


def test_without_an_exporter_nothing_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even the library: importing it costs time and memory."""
    import prefect.events  # noqa: PLC0415, F401 - it has a tracer of its own

    own = ("opentelemetry", monitoring.__name__)
    for name in [name for name in sys.modules if name.startswith(own)]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    assert importlib.import_module(monitoring.__name__).meter() is None
    assert not [name for name in sys.modules if name.startswith("opentelemetry")]
