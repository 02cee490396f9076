"""Waiting out what may pass by itself before a deadline."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from nightscreen.calling.caller import wait_and_resume
from nightscreen.calling.stops import CheckProgress, Stops
from nightscreen.calling.wallet import Wallet
from nightscreen.schemas.stops import StopReason

HOUR = 3600 * 1_000_000


def stopped_line() -> Any:  # noqa: ANN401
    """Return what waiting needs of a line: why it stopped and until when it may wait."""
    progress = {"karma": CheckProgress(wanted=2, paid=1, failed=1)}
    stops = Stops(deadline_at=HOUR, progress=progress)
    stops.stop(StopReason.OUTAGE)
    return SimpleNamespace(
        stops=stops,
        wallet=Wallet(stops),
        clock=lambda: 0,
        settings=SimpleNamespace(resume_every=timedelta(seconds=600)),
    )


async def test_a_run_that_waits_can_be_cancelled() -> None:
    """Cancelling replaces a stop that may pass, and the waiting ends."""
    line = stopped_line()
    waiting = asyncio.get_running_loop().create_task(wait_and_resume(line, lambda: None))
    await asyncio.sleep(0)
    assert (line.stops.resting_since, line.stops.resting_until) == (0, 600_000_000)
    line.stops.stop(StopReason.CANCELLED)
    assert not await waiting
    assert line.stops.reason == StopReason.CANCELLED
