"""What flows beside screening share: a run opened for their tasks, and a desk for its calls.

What is asked, and what answers mean, is each line's own (`steps/`).
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from prefect.runtime import flow_run

from nightscreen.schemas.errors import UsageError
from nightscreen.steps.asking.control import StopReason
from nightscreen.steps.errands.desk import open_desk, refuse_wrong_address
from nightscreen.tasks import live
from nightscreen.tasks.stopping import heeding_sigterm, to_the_end
from nightscreen.tasks.watching import say_minutes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from nightscreen.steps.errands.desk import Desk, ErrandRun
    from nightscreen.tasks.live import LiveErrand


def named(word: str) -> Callable[[], str]:
    """Return what names a flow run: by the run it takes up again, or by a word; nobody's data."""

    def run_name() -> str:
        given = flow_run.parameters.get("parameters", {})
        values = given if isinstance(given, dict) else given.model_dump()
        return f"resume-{values['run']}" if values.get("run") else word

    return run_name


@asynccontextmanager
async def opened_errand(open_run: Callable[[], ErrandRun]) -> AsyncIterator[LiveErrand]:
    """Open a run for the tasks of this process, and close it whatever happens.

    Where it comes to nothing by a mistake of usage, and nothing was sent, nothing is left of it.
    """
    errand = await asyncio.to_thread(open_run)
    run = live.put_errand(errand)
    try:
        with heeding_sigterm(run):
            yield run
    except UsageError:
        await asyncio.to_thread(errand.withdraw)
        raise
    finally:
        live.forget(errand.run_id)
        errand.close()


@asynccontextmanager
async def at_the_desk(
    run: LiveErrand, close: Callable[[LiveErrand], object]
) -> AsyncIterator[Desk]:
    """Open the desk; when cancelled, let calls in flight settle, then close the run's folder.

    Args:
        run: the open run.
        close: writes what there is to write of a run that was cancelled; called in a thread.

    Raises:
        ServiceAddressError: the address is not the service's; nothing is left of a new run.
    """
    run.desk = open_desk(run.run)
    saying = asyncio.get_running_loop().create_task(say_minutes(run.run_id, run.control))
    try:
        yield run.desk
    except asyncio.CancelledError:
        run.control.stop_run(StopReason.CANCELLED)
        await to_the_end(_close_cancelled(run, close))
        raise
    finally:
        saying.cancel()
        await to_the_end(_settle(run))
    refuse_wrong_address(run.run)


async def _settle(run: LiveErrand) -> None:
    """Let what is in flight settle, and close what is open for calls."""
    if run.desk is not None:
        await run.desk.close()
        run.desk = None


async def _close_cancelled(run: LiveErrand, close: Callable[[LiveErrand], object]) -> None:
    await _settle(run)
    await asyncio.to_thread(close, run)
