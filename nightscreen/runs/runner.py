"""Run the stations of a run, and close a run of any flow.

Each flow has the order of its stations: `runs/screening.py`, `operations/person_run.py`. A `Runner`
runs them in this process; `tasks/engine_run.py` makes each of them a task run of the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from nightscreen.journal.audit import user_name
from nightscreen.runs.approval import may_spend
from nightscreen.schemas.errors import UsageError, foremost

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from nightscreen.calling.asking import Asking
    from nightscreen.calling.run import Run


class Runner:
    """Runs the stations of a run one after the other in this process.

    Attributes:
        by: who asks for approval; empty for the user of this process.
    """

    by = ""

    @asynccontextmanager
    async def watching(self, run: Run) -> AsyncIterator[None]:  # noqa: ARG002 - for those that watch
        """Do whatever accompanies the whole run, while the body runs."""
        yield

    async def may_spend(self, run: Run, quote: dict[str, Any]) -> bool:
        """Return whether the run may spend what it was quoted; if not, it is stopped."""
        return may_spend(run, quote, by=self.by or user_name())

    @asynccontextmanager
    async def asking(self, write_all: Callable[[], object]) -> AsyncIterator[None]:  # noqa: ARG002 - for those that can be cancelled
        """Do whatever accompanies calls and waiting, while the body runs.

        `write_all` writes the run's folder if the body is cancelled.
        """
        yield

    @asynccontextmanager
    async def calling(self, caller: Any) -> AsyncIterator[None]:  # noqa: ANN401 - what a flow's own calls are made by
        """Keep a caller open for the body; at its end, let calls in flight settle."""
        try:
            yield
        finally:
            await caller.close()

    @asynccontextmanager
    async def sharing(self, asking: Asking) -> AsyncIterator[None]:  # noqa: ARG002 - for those that share
        """Let the run's other processes, if any, make calls while the body runs."""
        yield

    async def step(
        self,
        name: str,  # noqa: ARG002 - the engine shows it
        station: Callable[..., Any],
        *given: Any,  # noqa: ANN401 - as the station
        re_entered: bool = False,  # noqa: ARG002 - the engine tries again
    ) -> Any:  # noqa: ANN401 - as the station
        """Run one station and return its result.

        Args:
            name: its name in the engine.
            station: the function.
            given: its arguments.
            re_entered: whether it may be called again after an unexpected fault.
        """
        result = station(*given)
        return await result if isinstance(result, Awaitable) else result


@asynccontextmanager
async def closing(run: Run) -> AsyncIterator[None]:
    """Close a run after the body; if its input is wrong, remove every trace of a new run.

    Raises:
        NightscreenError: the most important one, if concurrent checks or persons failed.
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
