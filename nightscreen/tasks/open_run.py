"""A run of any flow within the engine: named, its steps carried, watched, its calls settled, ended.

Tasks take the run itself: the engine stores no arguments and looks inside no plain object. Two runs
of one process share nothing. What is asked, and what answers mean, is each flow's own.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from prefect import get_run_logger
from prefect.runtime import flow_run

from nightscreen.ops.vitals import ASKING, WRITING
from nightscreen.runs.steps import Steps
from nightscreen.schemas.stops import StopReason
from nightscreen.tasks import events
from nightscreen.tasks.cancellation import handle_sigterm, shield_until_done, to_prefect_state
from nightscreen.tasks.monitoring import watching
from nightscreen.tasks.server import show_report, tag_run
from nightscreen.tasks.stations import carry_out
from nightscreen.tasks.terminal import shown_at_terminal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from prefect.client.schemas.objects import State

    from nightscreen.tasks.run_in_engine import OpenRun


def named(word: str) -> Callable[[], str]:
    """Return what names a flow run: by the run it resumes, or by a word; nobody's data."""

    def run_name() -> str:
        given = flow_run.parameters.get("parameters", {})
        values = given if isinstance(given, dict) else given.model_dump()
        return f"resume-{values['run']}" if values.get("run") else word

    return run_name


class EngineSteps(Steps):
    """Carries a run's steps as task runs of the flow that it is made in.

    Attributes:
        open_run: the run as its tasks are handed it, once it is open.
    """

    open_run: OpenRun[Any]

    @asynccontextmanager
    async def watching(self, run: Any) -> AsyncIterator[None]:  # noqa: ANN401, ARG002 - open_run has it
        """Watch over the run, and let signals and whoever typed the command stop it."""
        mine = self.open_run
        with shown_at_terminal(mine), handle_sigterm(mine):
            await tag_run("nightscreen", mine.run_id, mine.run.purpose)
            async with watching(mine):
                yield

    @asynccontextmanager
    async def calling(self, caller: Any) -> AsyncIterator[None]:  # noqa: ANN401 - as in this process
        """Let the run's tasks call, and settle what is in flight however the body ends."""
        mine = self.open_run
        mine.caller, mine.step = caller, ASKING
        try:
            yield
        except asyncio.CancelledError:
            mine.stops.stop(StopReason.CANCELLED)
            raise
        finally:
            await shield_until_done(mine.settle())
            mine.step = WRITING

    async def step(
        self,
        name: str,
        station: Callable[..., Any],
        *given: Any,  # noqa: ANN401 - as the station
        re_entered: bool = False,
    ) -> Any:  # noqa: ANN401 - as the station
        """Carry out one step as a task run."""
        return await carry_out(self.open_run, name, station, *given, is_retried=re_entered)


@asynccontextmanager
async def closed_if_cancelled(close: Callable[[], object]) -> AsyncIterator[None]:
    """Close the run's folder, in a thread, where the body is cancelled."""
    try:
        yield
    except asyncio.CancelledError:
        await shield_until_done(asyncio.to_thread(close))
        raise


async def ended(run: OpenRun[Any], report: dict[str, Any]) -> dict[str, Any] | State[Any]:
    """Say everywhere how a run ended; return its report, or what the engine is to be told."""
    state, reason = report["state"], report["stop_reason"]
    get_run_logger().info(
        "run %s %s%s: %s naira; results in %s",
        run.run_id,
        state,
        f" ({reason})" if reason else "",
        report["cost"]["total"],
        run.run.folder.path,
    )
    events.run_ended(report)
    await show_report(run.run, report)
    held = state == "completed" and not report["publishable"]
    await tag_run(state, reason, "held back" if held else None)
    return await to_prefect_state(run, report)
