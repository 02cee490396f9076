"""Waiting out what may pass by itself before a deadline."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from nightscreen.calling.progress import CheckProgress
from nightscreen.calling.stops import Stops
from nightscreen.calling.waiting import wait_and_resume
from nightscreen.calling.wallet import Wallet
from nightscreen.schemas.stops import StopReason

HOUR = 3600 * 1_000_000


def stopped_line(
    reason: StopReason, *, deadline_at: int | None = HOUR, every_s: float = 0.01
) -> Any:  # noqa: ANN401
    """Return what waiting needs of a line: why it stopped and until when it may wait."""
    stops = Stops(
        deadline_at=deadline_at, progress={"karma": CheckProgress(wanted=2, paid=1, failed=1)}
    )
    stops.stop(reason)
    return SimpleNamespace(
        stops=stops,
        wallet=Wallet(stops),
        clock=lambda: 0,
        settings=SimpleNamespace(resume_every=timedelta(seconds=every_s)),
    )


@pytest.mark.parametrize("reason", [StopReason.OUTAGE, StopReason.BALANCE])
async def test_what_may_pass_is_tried_again_before_the_deadline(reason: StopReason) -> None:
    """The stop is taken back, and what was lost is let be asked again, once."""
    line = stopped_line(reason)
    reopened: list[bool] = []
    assert await wait_and_resume(line, lambda: reopened.append(True))
    assert line.stops.reason is None
    assert reopened == [True]


@pytest.mark.parametrize("reason", [StopReason.BUDGET, StopReason.AUTH, StopReason.CANCELLED])
async def test_what_cannot_pass_stays(reason: StopReason) -> None:
    """A cap, a refused key and a cancellation do not go away by waiting."""
    line = stopped_line(reason)
    assert not await wait_and_resume(line, lambda: None)
    assert line.stops.reason == reason


@pytest.mark.parametrize("deadline_at", [None, 1000])
async def test_without_time_for_another_try_the_run_ends(deadline_at: int | None) -> None:
    """No deadline, or one before the next try: the stop stands."""
    line = stopped_line(StopReason.OUTAGE, deadline_at=deadline_at)
    assert not await wait_and_resume(line, lambda: None)
    assert line.stops.reason == StopReason.OUTAGE


async def test_a_run_that_waits_can_be_cancelled() -> None:
    """Cancelling replaces a stop that may pass, and the waiting ends."""
    line = stopped_line(StopReason.OUTAGE, every_s=600)
    waiting = asyncio.get_running_loop().create_task(wait_and_resume(line, lambda: None))
    await asyncio.sleep(0)
    line.stops.stop(StopReason.CANCELLED)
    assert not await waiting
    assert line.stops.reason == StopReason.CANCELLED
