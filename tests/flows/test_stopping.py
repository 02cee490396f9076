"""A run stopped from outside ends in good order, and is resumed without paying twice."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from nightscreen.journal import open_journal
from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.process import SandboxProcess
from tests.flows.conftest import API_KEY
from tests.flows.engine_in_a_test import Engine, until
from tests.laws import all_calls

pytestmark = [pytest.mark.engine, pytest.mark.long]

ROWS = 250
LATENCY_MS = 600
UNDER_WAY = 25  # charges after which a run is well under way


def screening(engine: Engine, *words: str) -> subprocess.Popen[str]:
    return engine.command("screen", *words, "--json", NIGHTSCREEN_API_KEY=API_KEY)


def test_signalled_command_settles_and_resumes(
    engine: Engine,
    sandbox: SandboxProcess,
    nightscreen_home: Path,
    tmp_path: Path,
) -> None:
    """Ctrl-C, even twice, ends it with status 3, a whole folder and nothing in doubt."""
    sandbox.post("/_sandbox/latency", {"kind": "fixed", "ms": LATENCY_MS})
    make_batch(tmp_path / "stopped.csv", rows=ROWS, seed=200)
    output = ("--output", str(tmp_path / "out"))
    running = screening(engine, str(tmp_path / "stopped.csv"), *output)

    def under_way() -> bool:
        totals = sandbox.totals()
        return bool(totals["totals"]["charges"] >= UNDER_WAY and totals["in_flight"]["all"])

    until(under_way, "a run under way")
    running.send_signal(signal.SIGINT)
    running.send_signal(signal.SIGINT)
    said, complaint = running.communicate(timeout=120)
    assert running.returncode == 3, complaint
    assert "Traceback" not in complaint
    report = json.loads(said)
    folder = tmp_path / "out" / report["run_id"]
    sandbox.wait_until_idle()
    assert (report["state"], report["stop_reason"]) == ("stopped", "cancelled")
    assert report == json.loads((folder / "report.json").read_text())
    assert (folder / "manifest.json").exists()
    assert sum(check["pending"] for check in report["checks"].values()) > 0
    with open_journal(nightscreen_home) as journal:
        calls = all_calls(journal)
    assert {row.state for row in calls} <= {"answered", "not_sent"}
    assert float(report["cost"]["total"]) == float(sandbox.totals()["totals"]["charged"])

    sandbox.post("/_sandbox/latency", {"kind": "none"})
    said, complaint = screening(engine, "--run", folder.name, *output).communicate(timeout=120)
    again, totals = json.loads(said), sandbox.totals()["totals"]
    assert (again["state"], again["run_id"]) == ("completed", folder.name), complaint
    assert totals["repeated_charges"] == 0
    assert float(again["cost"]["total"]) == float(totals["charged"])
    assert (folder / "report-1.json").exists()
