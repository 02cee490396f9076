"""Progress of a run in the Prefect UI: one progress artifact, brought up to date now and then.

Numbers only. The panel on a terminal is the command line's.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from prefect.artifacts import acreate_progress_artifact, aupdate_progress_artifact

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from uuid import UUID

    from nightscreen.calling.run import Run

EVERY_S = 5.0


@asynccontextmanager
async def show_progress(run: Run, key: str) -> AsyncIterator[None]:
    """Keep a progress artifact of a key while the body runs."""
    artifact = await acreate_progress_artifact(
        progress=0.0, key=key, description=f"Lookups answered, run {run.run_id}"
    )
    keeper = asyncio.get_running_loop().create_task(_keep(run, artifact))
    try:
        yield
    finally:
        keeper.cancel()
        await asyncio.wait([keeper])
        await _show(run, artifact)


async def _keep(run: Run, artifact: UUID) -> None:
    while True:
        await asyncio.sleep(EVERY_S)
        await _show(run, artifact)


async def _show(run: Run, artifact: UUID) -> None:
    """Bring the artifact up to date; an engine that cannot be reached does not stop the run."""
    update = asyncio.get_running_loop().create_task(
        aupdate_progress_artifact(artifact, progress=share_done(run))
    )
    await asyncio.wait([update])
    if not update.cancelled() and update.exception() is not None:
        logging.getLogger(__name__).debug("progress could not be shown", exc_info=False)


def share_done(run: Run) -> float:
    """Return the share of needed lookups that came to an end, in percent; never over a hundred.

    A task that is entered again counts what it finds answered once more.
    """
    wanted = sum(each.wanted for each in run.progress.values())
    done = sum(each.done for each in run.progress.values())
    return min(100.0, round(100.0 * done / wanted, 1)) if wanted else 100.0
