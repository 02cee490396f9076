"""OpenTelemetry: measures where an exporter is configured, nothing at all elsewhere."""

from __future__ import annotations

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from nightscreen.tasks import telemetry
from tests.money.service_in_memory import LOST, Bureau

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nightscreen.calling.asking import Asking

ROWS = 30


class Kept:
    """Telemetry that keeps measures in memory."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.telemetry = telemetry.assemble(self.reader)

    def points(self, name: str) -> list[Any]:
        """Return the points of one measure."""
        data = self.reader.get_metrics_data()
        assert data is not None
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


@pytest.fixture
def kept() -> Iterator[Kept]:
    """Have what is measured kept in memory."""
    found = Kept()
    telemetry.use(found.telemetry)
    yield found
    telemetry.use(None)


def night(bureau: Bureau) -> tuple[dict[str, Any], list[Asking]]:
    """Spend a night whose run is measured."""
    askings: list[Asking] = []

    async def measure(asking: Asking) -> None:
        askings.append(asking)
        assert telemetry.begin(asking.run)

    return bureau.night(steer=measure).report, askings


def test_calls_are_counted_by_check_outcome_and_trouble(tmp_path: Path, kept: Kept) -> None:
    """As many as the service saw, with a histogram of how long they took."""
    bureau = Bureau(tmp_path, rows=ROWS)
    bureau.service.before = lambda _operation, _identity, number: LOST if number == 9 else None
    report, _ = night(bureau)
    points = kept.points("nightscreen.calls")
    assert sum(point.value for point in points) >= len(bureau.service.ledger) - 1
    assert {point.attributes["check"] for point in points} == set(report["checks"])
    lost = [point for point in points if point.attributes["trouble"]]
    assert [(point.attributes["verdict"], point.value) for point in lost] == [("in_doubt", 1)]
    durations = kept.points("nightscreen.call.duration")
    assert sum(point.count for point in durations) == sum(point.value for point in points)
    assert all(1.0 <= point.sum / point.count < 1.1 for point in durations)


def test_live_numbers_are_read_when_they_are_measured(tmp_path: Path, kept: Kept) -> None:
    """Spend by check, balance and caps of the runs that are open."""
    bureau = Bureau(tmp_path, rows=ROWS)
    report, _ = night(bureau)
    spend = {point.attributes["check"]: point.value for point in kept.points("nightscreen.spend")}
    assert spend == {check: float(part["cost"]) for check, part in report["checks"].items()}
    (balance,) = kept.points("nightscreen.balance")
    assert balance.value == float(report["balance"]["closing"])
    assert all(point.value >= 1 for point in kept.points("nightscreen.cap"))
    assert all(point.value == 0 for point in kept.points("nightscreen.in_flight"))


def test_a_run_that_has_ended_is_measured_no_more(tmp_path: Path, kept: Kept) -> None:
    """Else a worker that lives for months would tell of every run it ever had."""
    _, askings = night(Bureau(tmp_path, rows=ROWS))
    telemetry.end(askings[0].run)
    assert kept.points("nightscreen.balance") == []


class _Collector(BaseHTTPRequestHandler):
    """Takes what exporters send."""

    taken: list[str]

    def do_POST(self) -> None:
        """Take note of what was sent where."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.taken.append(self.path)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_what_was_measured_reaches_a_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Configured by the standard variable alone, handed in when the run ends."""
    _Collector.taken = []
    server = HTTPServer(("127.0.0.1", 0), _Collector)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    try:
        _, askings = night(Bureau(tmp_path, rows=ROWS))
        telemetry.end(askings[0].run)
        opened = telemetry._open
        assert opened is not None
        opened.measures.shutdown()
    finally:
        telemetry.use(None)
        server.shutdown()
        thread.join()
        server.server_close()
    assert "/v1/metrics" in _Collector.taken


def test_without_an_exporter_nothing_is_imported() -> None:
    """Not even the library: importing it costs time and memory."""
    program = (
        "import sys; from nightscreen.tasks import telemetry\n"
        "assert not telemetry.is_wanted()\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={}
    )
    assert done.stdout == "[]\n"
