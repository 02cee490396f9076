"""A run stopped from outside ends in good order, and is resumed without paying twice."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from nightscreen.journal import open_journal
from nightscreen.sandbox.batch import make_batch
from tests.flows.conftest import API_KEY
from tests.flows.engine_in_a_test import ROOT, until

if TYPE_CHECKING:
    from pathlib import Path

    from nightscreen.sandbox.process import SandboxProcess
    from tests.flows.engine_in_a_test import Engine

pytestmark = [pytest.mark.engine, pytest.mark.long]

ROWS = 250
LATENCY_MS = 600
UNDER_WAY = 25  # charges after which a run is well under way


@pytest.fixture
def slow(sandbox: SandboxProcess) -> SandboxProcess:
    """A sandbox slow enough for a run to be caught in the middle."""
    sandbox.post("/_sandbox/latency", {"kind": "fixed", "ms": LATENCY_MS})
    return sandbox


def wait_until_under_way(sandbox: SandboxProcess) -> None:
    """Wait until a run has paid for some lookups, and has others in flight."""

    def under_way() -> bool:
        totals = sandbox.totals()
        return bool(totals["totals"]["charges"] >= UNDER_WAY and totals["in_flight"]["all"])

    until(under_way, "a run under way")


def command(engine: Engine, *arguments: str) -> subprocess.Popen[str]:
    """Start `nightscreen` as on a terminal of the worker's machine."""
    return subprocess.Popen(
        [sys.executable, "-c", "from nightscreen.cli.entry import run; run()", *arguments],
        env={**engine.env, "NIGHTSCREEN_API_KEY": API_KEY},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def only_folder(output: Path) -> Path:
    """Return the folder of the only run under an output folder."""
    (folder,) = (each for each in output.iterdir() if each.is_dir())
    return folder


def read_report(folder: Path) -> dict[str, Any]:
    """Return the report of a run."""
    return dict(json.loads((folder / "report.json").read_text()))


def call_states(home: Path, run_id: str) -> set[str]:
    """Return the states the journal holds for the calls of a run."""
    with open_journal(home) as journal:
        return {row.state for block in journal.runs.calls(run_id) for row in block}


def assert_ended_in_good_order(folder: Path, home: Path, sandbox: SandboxProcess) -> None:
    """Every call in flight was waited for and written down; the folder is whole."""
    sandbox.wait_until_idle()
    report = read_report(folder)
    assert (report["state"], report["stop_reason"]) == ("stopped", "cancelled")
    assert (folder / "manifest.json").exists()
    assert pq.read_table(folder / "enriched").num_rows == report["rows"]["screened"]
    assert sum(check["pending"] for check in report["checks"].values()) > 0
    assert sum(check["in_doubt"] for check in report["checks"].values()) == 0
    assert call_states(home, report["run_id"]) <= {"answered", "not_sent"}
    assert float(report["cost"]["total"]) == float(sandbox.totals()["totals"]["charged"])


def assert_resumes(engine: Engine, folder: Path, sandbox: SandboxProcess) -> None:
    """The run is resumed, ends, and pays for nothing a second time."""
    sandbox.post("/_sandbox/latency", {"kind": "none"})
    again = command(
        engine, "screen", "--run", folder.name, "--output", str(folder.parent), "--json"
    )
    said, complaint = again.communicate(timeout=120)
    assert again.returncode == 0, complaint
    report = json.loads(said)
    totals = sandbox.totals()["totals"]
    assert report["state"] == "completed"
    assert report["run_id"] == folder.name
    assert sum(check["pending"] for check in report["checks"].values()) == 0
    assert totals["repeated_charges"] == 0
    assert float(report["cost"]["total"]) == float(totals["charged"])
    assert read_report(folder)["state"] == "completed"
    assert (folder / "report-1.json").exists()


def test_cancelled_flow_run_settles_and_resumes(
    engine: Engine, slow: SandboxProcess, nightscreen_home: Path, tmp_path: Path
) -> None:
    """`prefect flow-run cancel` ends in Cancelled, with the folder whole and the run resumable."""
    make_batch(tmp_path / "cancelled.csv", rows=ROWS, seed=101)
    asked = {"input": str(tmp_path / "cancelled.csv"), "output": str(tmp_path / "out")}
    started = engine.start(asked)
    wait_until_under_way(slow)
    engine.prefect("flow-run", "cancel", started)
    ended = engine.wait_for_end(started)
    assert ended["state_name"] == "Cancelled", engine.logs()
    folder = only_folder(tmp_path / "out")
    assert_ended_in_good_order(folder, nightscreen_home, slow)
    assert_resumes(engine, folder, slow)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signalled_command_settles_and_resumes(
    engine: Engine,
    slow: SandboxProcess,
    nightscreen_home: Path,
    tmp_path: Path,
    number: signal.Signals,
) -> None:
    """Ctrl-C and SIGTERM, even twice, end `nightscreen screen` with status 3 and a report."""
    make_batch(tmp_path / "stopped.csv", rows=ROWS, seed=200 + number)
    running = command(
        engine, "screen", str(tmp_path / "stopped.csv"), "--output", str(tmp_path / "out"), "--json"
    )
    wait_until_under_way(slow)
    running.send_signal(number)
    running.send_signal(number)
    said, complaint = running.communicate(timeout=120)
    assert running.returncode == 3, complaint
    assert json.loads(said)["stop_reason"] == "cancelled"
    assert "Traceback" not in complaint
    folder = only_folder(tmp_path / "out")
    assert_ended_in_good_order(folder, nightscreen_home, slow)
    assert_resumes(engine, folder, slow)
