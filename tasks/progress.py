"""Progress of a run in the Prefect UI: one progress artifact, brought up to date now and then.

Numbers only. The panel on a terminal is the command line's.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from prefect.artifacts import acreate_progress_artifact, aupdate_progress_artifact

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from uuid import UUID

    from steps.line import Line

EVERY_S = 5.0


@asynccontextmanager
async def show_progress(line: Line) -> AsyncIterator[None]:
    """Keep a progress artifact while the body runs."""
    artifact = await acreate_progress_artifact(
        progress=0.0, key="screening", description=f"Lookups answered, run {line.run_id}"
    )
    keeper = asyncio.get_running_loop().create_task(_keep(line, artifact))
    try:
        yield
    finally:
        keeper.cancel()
        await asyncio.wait([keeper])
        await aupdate_progress_artifact(artifact, progress=share_done(line))


async def _keep(line: Line, artifact: UUID) -> None:
    while True:
        await asyncio.sleep(EVERY_S)
        await aupdate_progress_artifact(artifact, progress=share_done(line))


def share_done(line: Line) -> float:
    """Return the share of needed lookups that came to an end, in percent."""
    wanted = sum(each.wanted for each in line.control.progress.values())
    done = sum(each.done for each in line.control.progress.values())
    return 100.0 if not wanted else round(100.0 * done / wanted, 1)
