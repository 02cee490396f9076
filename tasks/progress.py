"""Progress of a run in the Prefect UI: one progress artifact, brought up to date now and then.

Numbers only. The panel on a terminal is the command line's.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from prefect.artifacts import acreate_progress_artifact, aupdate_progress_artifact

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from uuid import UUID

    from nightscreen.steps.control import Control

EVERY_S = 5.0


class Shown(Protocol):
    """A run of which progress is shown."""

    @property
    def run_id(self) -> str:
        """Return the run's id."""

    @property
    def control(self) -> Control:
        """Return what counts its calls."""


@asynccontextmanager
async def show_progress(line: Shown, key: str = "screening") -> AsyncIterator[None]:
    """Keep a progress artifact of a key while the body runs."""
    artifact = await acreate_progress_artifact(
        progress=0.0, key=key, description=f"Lookups answered, run {line.run_id}"
    )
    keeper = asyncio.get_running_loop().create_task(_keep(line, artifact))
    try:
        yield
    finally:
        keeper.cancel()
        await asyncio.wait([keeper])
        await _show(line, artifact)


async def _keep(line: Shown, artifact: UUID) -> None:
    while True:
        await asyncio.sleep(EVERY_S)
        await _show(line, artifact)


async def _show(line: Shown, artifact: UUID) -> None:
    """Bring the artifact up to date; an engine that cannot be reached does not stop the run."""
    update = asyncio.get_running_loop().create_task(
        aupdate_progress_artifact(artifact, progress=share_done(line))
    )
    await asyncio.wait([update])
    if not update.cancelled() and update.exception() is not None:
        logging.getLogger(__name__).debug("progress could not be shown", exc_info=False)


def share_done(line: Shown) -> float:
    """Return the share of needed lookups that came to an end, in percent; never over a hundred.

    A shard that is entered again counts what it finds answered once more.
    """
    wanted = sum(each.wanted for each in line.control.progress.values())
    done = sum(each.done for each in line.control.progress.values())
    return min(100.0, round(100.0 * done / wanted, 1)) if wanted else 100.0
