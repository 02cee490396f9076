"""Who carries the stations of a run, and how a run of any flow is left.

The order of the stations is each flow's own: `runs/screening.py`, `operations/person_run.py`. This
process carries them by itself, or the engine does, by a task run each (`tasks/engine_run.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from nightscreen.files.person import user_name
from nightscreen.runs.approval import may_spend
from nightscreen.schemas.errors import UsageError, foremost

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from nightscreen.calling.asking import Asking
    from nightscreen.calling.run import Run
    from nightscreen.runs.screening_run import ScreeningRun

R = TypeVar("R")


class Runner:
    """Carries the stations of a run: here one after the other, in this process alone."""

    async def open(self, opening: Callable[[], R]) -> R:
        """Open the run and return it, in a thread: it waits for the journal."""
        return await asyncio.to_thread(opening)

    @asynccontextmanager
    async def watching(self, run: Run) -> AsyncIterator[None]:  # noqa: ARG002 - for those that watch
        """Do what goes on beside the whole run, for the body."""
        yield

    async def may_spend(self, run: ScreeningRun) -> bool:
        """Return whether the run may spend what it was quoted at; else it is stopped."""
        return may_spend(run, by=user_name())

    @asynccontextmanager
    async def asking(self, write_all: Callable[[], object]) -> AsyncIterator[None]:  # noqa: ARG002 - for those that can be cancelled
        """Do what goes on while calls are made, waiting included, for the body.

        `write_all` writes the run's folder where the body is cancelled.
        """
        yield

    @asynccontextmanager
    async def calling(self, caller: Any) -> AsyncIterator[None]:  # noqa: ANN401 - what a flow's own calls are made by
        """Keep what makes calls open for the body; at its end what is in flight settles."""
        try:
            yield
        finally:
            await caller.close()

    @asynccontextmanager
    async def sharing(self, asking: Asking) -> AsyncIterator[None]:  # noqa: ARG002 - for those that share
        """Have other processes ask too while the body does, where the run has any."""
        yield

    async def step(
        self,
        name: str,  # noqa: ARG002 - the engine shows it
        station: Callable[..., Any],
        *given: Any,  # noqa: ANN401 - as the station
        re_entered: bool = False,  # noqa: ARG002 - the engine tries again
    ) -> Any:  # noqa: ANN401 - as the station
        """Carry out one station and return its result.

        Args:
            name: what the engine calls it.
            station: what is done.
            given: what it takes.
            re_entered: a fault that nobody foresaw may be met by doing it once more.
        """
        done = station(*given)
        return await done if isinstance(done, Awaitable) else done


@asynccontextmanager
async def closing(run: Run) -> AsyncIterator[None]:
    """Close a run after the body; where its input is wrong, leave nothing of a new one.

    Raises:
        NightscreenError: of faults of people or checks asked side by side, the foremost.
    """
    try:
        yield
    except UsageError:
        await asyncio.to_thread(run.discard)
        raise
    except ExceptionGroup as several:
        why = foremost(several)
        if why is None:
            raise
        raise why from several
    finally:
        run.close()
