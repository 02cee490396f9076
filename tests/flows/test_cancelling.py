"""A flow cancelled or signalled in its own process: nothing is lost, nothing hangs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from nightscreen.config.parameters import ScreenBatch
from nightscreen.flows.screen_batch import screen_batch
from nightscreen.journal import open_journal
from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.process import SandboxProcess
from nightscreen.tasks import engine_run
from tests.laws import all_calls

pytestmark = pytest.mark.engine

ROWS = 60
STUCK_MS = 8000


@pytest.fixture(autouse=True)
def slow_people(sandbox: SandboxProcess, tmp_path: Path) -> None:
    """A small batch, and a sandbox slow enough to be caught in the middle."""
    sandbox.post("/_sandbox/latency", {"kind": "fixed", "ms": 400})
    make_batch(tmp_path / "people.csv", rows=ROWS, seed=404, damage_pct=0)


def started(folder: Path) -> asyncio.Task[Any]:
    asked = ScreenBatch(input=str(folder / "people.csv"), output=str(folder / "out"))
    return asyncio.get_running_loop().create_task(screen_batch(asked))


async def until_under_way(sandbox: SandboxProcess, charges: int = 5) -> None:
    """Wait until a run has paid for something and has calls in flight."""
    while True:
        totals = await asyncio.to_thread(sandbox.totals)
        if totals["totals"]["charges"] >= charges and totals["in_flight"]["all"]:
            return
        await asyncio.sleep(0.05)


def report_of(folder: Path) -> dict[str, Any]:
    (path,) = (folder / "out").glob("*/report.json")
    return dict(json.loads(path.read_text()))


def call_states(folder: Path) -> list[str]:
    with open_journal(folder / "home") as journal:
        return [call.state for call in all_calls(journal)]


async def test_cancelled_flow_leaves_a_whole_folder(at_home: Path, sandbox: SandboxProcess) -> None:
    """A cancelled flow lets calls settle and writes its folder; more cancellations do no harm."""
    run = started(at_home)
    await until_under_way(sandbox)
    for _ in range(3):
        run.cancel()
        await asyncio.sleep(0.05)
    with pytest.raises(asyncio.CancelledError):
        await run
    sandbox.wait_until_idle()
    report = report_of(at_home)
    states = call_states(at_home)
    assert (report["state"], report["stop_reason"]) == ("stopped", "cancelled")
    assert set(states) <= {"answered", "not_sent"}
    assert float(report["cost"]["total"]) == float(sandbox.totals()["totals"]["charged"])


async def test_call_that_outlasts_the_patience_is_in_doubt(
    at_home: Path, sandbox: SandboxProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After SIGTERM a call that does not come back is cut and named, and the run ends in time."""
    monkeypatch.setattr(engine_run, "PATIENCE_S", 0.3)
    run = started(at_home)
    await until_under_way(sandbox)
    sandbox.post("/_sandbox/latency", {"kind": "fixed", "ms": STUCK_MS})
    await asyncio.sleep(1.0)
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(60):
        report = await run
    states = call_states(at_home)
    doubts = sum(check["in_doubt"] for check in report["checks"].values())
    assert (report["state"], report["stop_reason"]) == ("stopped", "cancelled")
    assert doubts == states.count("in_doubt") > 0
    assert "intent" not in states
    await asyncio.to_thread(sandbox.wait_until_idle)
