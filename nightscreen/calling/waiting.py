"""Waiting out what may pass: with a deadline, an outage, a low wallet or a quota is tried again.

The one rule for runs of every flow. What a window waits for while it is open is the window's.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nightscreen.calling.stops import PASSING
from nightscreen.schemas.clock import MICROS, next_day

if TYPE_CHECKING:
    from collections.abc import Callable

    from nightscreen.calling.run import Run

LOOK_S = 1.0  # how soon a run that waits hears that it was cancelled


def seconds_to_resume(run: Run) -> float | None:
    """Return how long to wait before a stopped run is tried again; None where it has ended.

    What may pass by itself (`PASSING`) is waited for where a deadline is set and leaves time.
    """
    stops, now = run.stops, run.clock()
    waits = [
        (next_day(now) - now) / MICROS
        if PASSING[reason].at_noon
        else run.settings.resume_every.total_seconds()
        for reason in stops.passing()
    ]
    if stops.deadline_at is None or not waits:
        return None
    return min(waits) if min(waits) < (stops.deadline_at - now) / MICROS else None


async def wait_and_resume(run: Run, reopen: Callable[[], object]) -> bool:
    """Wait where a run's stop may pass before its deadline; return True where it goes on.

    Where no deadline is set, or the next try would come after it, or the run is cancelled
    meanwhile, the stop stays. Open a new session next: it begins with fresh attempts.

    Args:
        run: the run; nothing of it is in flight.
        reopen: lets what was lost or failed wait to be asked again; False where nothing may be
            asked any more, so that the stop stays. After the day's quota alone nothing was lost,
            and it is not called.
    """
    wait_s, stops = seconds_to_resume(run), run.stops
    if wait_s is None:
        return False
    loop = asyncio.get_running_loop()
    again_at, stop = loop.time() + wait_s, stops.reason
    stops.resting_since = run.clock()
    stops.resting_until = stops.resting_since + int(wait_s * MICROS)
    while (left_s := again_at - loop.time()) > 0:
        await asyncio.sleep(min(LOOK_S, left_s))
        if stops.reason != stop:
            stops.resting_since = None
            return False
    lost = any(not PASSING[reason].at_noon for reason in stops.passing())
    if lost and reopen() is False:
        stops.resting_since = None
        return False
    stops.go_on()
    run.wallet.forget()
    return True
