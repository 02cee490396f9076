"""Two runs open in one process do not meet: each has its own calls, stops and person to ask."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from nightscreen.config.parameters import ScreenBatch
from nightscreen.flows.screen_batch import screen_batch
from nightscreen.sandbox.batch import make_batch
from nightscreen.schemas.stops import StopReason
from nightscreen.tasks.terminal import AT_TERMINAL, Terminal

if TYPE_CHECKING:
    from pathlib import Path

    from nightscreen.sandbox.process import SandboxProcess

pytestmark = [pytest.mark.engine, pytest.mark.long]


async def screened(folder: Path, terminal: Terminal, seed: int) -> Any:  # noqa: ANN401 - a report
    """Screen a batch of its own, begun by a person of its own."""
    AT_TERMINAL.set(terminal)
    source = folder / f"people-{seed}.csv"
    make_batch(source, rows=60, seed=seed, damage_pct=0)
    return await screen_batch(ScreenBatch(input=str(source), output=str(folder / "out")))


def _asks(terminal: Terminal) -> bool:
    run = terminal.run
    return run is not None and any(check.in_flight for check in run.progress.values())


async def test_who_stops_one_run_leaves_the_other_alone(
    at_home: Path, sandbox: SandboxProcess
) -> None:
    """The first is stopped by the person who began it; the second asks all it was to ask."""
    sandbox.post("/_sandbox/latency", {"kind": "fixed", "ms": 5000})  # until both ask
    one, other = Terminal(), Terminal()
    runs = [
        asyncio.create_task(screened(at_home, one, 11)),
        asyncio.create_task(screened(at_home, other, 12)),
    ]
    while not (_asks(one) and _asks(other)):
        assert not any(run.done() for run in runs)
        await asyncio.sleep(0.05)
    sandbox.post("/_sandbox/latency", {"kind": "fixed", "ms": 20})
    assert one.run is not None
    assert one.run is not other.run
    one.run.stops.stop(StopReason.CANCELLED)
    first, second = await asyncio.gather(*runs)
    assert (first["state"], first["stop_reason"]) == ("stopped", "cancelled")
    assert (second["state"], second["stop_reason"]) == ("completed", None)
    assert first["run_id"] != second["run_id"]
    assert not [each for each in (one, other) if each.run is not None]
    spent = float(first["cost"]["total"]) + float(second["cost"]["total"])
    assert spent == float(sandbox.totals()["totals"]["charged"])
