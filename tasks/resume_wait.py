"""Waiting out what may pass: with a deadline, an outage or a low wallet is tried again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nightscreen.steps.calling.funding_rounds import seconds_to_resume, take_up_again

if TYPE_CHECKING:
    from nightscreen.steps.screening_run import ScreeningRun

LOOK_S = 1.0


async def wait_and_resume(line: ScreeningRun) -> bool:
    """Wait where a run's stop may pass before its deadline; return True where it goes on.

    Where no deadline is set, or the next try would come after it, or the run is cancelled
    meanwhile, the stop stays.
    """
    wait_s = seconds_to_resume(line)
    if wait_s is None:
        return False
    again_at = asyncio.get_running_loop().time() + wait_s
    stop = line.control.stop
    line.control.resting_since = line.clock()
    while (left_s := again_at - asyncio.get_running_loop().time()) > 0:
        await asyncio.sleep(min(LOOK_S, left_s))
        if line.control.stop != stop:
            line.control.resting_since = None
            return False
    take_up_again(line)
    return True
