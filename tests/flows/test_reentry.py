"""A check task that the engine runs again joins its calls and pays for nothing answered."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from nightscreen.calling.asking import Asking
from nightscreen.config.parameters import ScreenBatch
from nightscreen.flows.screen_batch import screen_batch
from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.process import SandboxProcess

pytestmark = pytest.mark.engine

LATENCY_MS = 300
BEFORE_THE_FAULT_S = 0.5


@pytest.fixture(autouse=True)
def thirty_people(sandbox: SandboxProcess, tmp_path: Path) -> None:
    """A small batch, and a sandbox slow enough to have calls in flight."""
    sandbox.post("/_sandbox/latency", {"kind": "fixed", "ms": LATENCY_MS})
    make_batch(tmp_path / "people.csv", rows=30, seed=303, damage_pct=0)


def asked(folder: Path) -> ScreenBatch:
    return ScreenBatch(input=str(folder / "people.csv"), output=str(folder / "out"))


async def test_reentered_task_joins_and_pays_nothing_twice(
    at_home: Path, sandbox: SandboxProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault in the middle of a check costs nothing: its calls go on and are found again."""
    entries: Counter[str] = Counter()
    real = Asking.ask

    async def faulty(asking: Asking, check: str) -> None:
        entries[check] += 1
        if entries[check] > 1:
            return await real(asking, check)
        async with asyncio.timeout(BEFORE_THE_FAULT_S):
            return await real(asking, check)

    monkeypatch.setattr(Asking, "ask", faulty)
    report: Any = await screen_batch(asked(at_home))
    sandbox.wait_until_idle()
    totals = sandbox.totals()["totals"]
    assert report["state"] == "completed"
    assert set(entries.values()) == {2}
    assert len(entries) == 3
    assert totals["repeated_charges"] == 0
    assert float(report["cost"]["total"]) == float(totals["charged"])
    asked_for = sum(check["distinct"] for check in report["checks"].values())
    assert totals["requests"] == asked_for
    assert all(check["pending"] == 0 for check in report["checks"].values())
