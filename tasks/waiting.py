"""Waiting out what may pass: with a deadline, an outage or a low wallet is tried again."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from steps.control import PASSING

if TYPE_CHECKING:
    from steps.line import Line

LOOK_S = 1.0


async def waits_and_goes_on(line: Line) -> bool:
    """Wait where a run's stop may pass before its deadline; return True where it goes on.

    Where no deadline is set, or the next try would come after it, or the run is cancelled
    meanwhile, the stop stays.
    """
    control = line.control
    if control.stop not in PASSING or control.deadline_at is None:
        return False
    again_at = line.clock() + line.settings.resume_every // timedelta(microseconds=1)
    if again_at >= control.deadline_at:
        return False
    while line.clock() < again_at:
        await asyncio.sleep(LOOK_S)
        if control.stop not in PASSING:
            return False
    control.go_on()
    return True
