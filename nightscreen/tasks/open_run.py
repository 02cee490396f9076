"""A run of any flow within the engine: named, watched, its calls settled, ended.

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
from nightscreen.schemas.stops import StopReason
from nightscreen.tasks import events
from nightscreen.tasks.cancellation import handle_sigterm, shield_until_done, to_prefect_state
from nightscreen.tasks.monitoring import watching
from nightscreen.tasks.server import show_report, tag_run
from nightscreen.tasks.terminal import shown_at_terminal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from prefect.client.schemas.objects import State

    from nightscreen.calling.caller import Caller
    from nightscreen.tasks.run_in_engine import OpenRun


def named(word: str) -> Callable[[], str]:
    """Return what names a flow run: by the run it resumes, or by a word; nobody's data."""

    def run_name() -> str:
        given = flow_run.parameters.get("parameters", {})
        values = given if isinstance(given, dict) else given.model_dump()
        return f"resume-{values['run']}" if values.get("run") else word

    return run_name


@asynccontextmanager
async def watched(run: OpenRun[Any]) -> AsyncIterator[None]:
    """Watch over a run for the body, and let signals and whoever typed the command stop it."""
    with shown_at_terminal(run), handle_sigterm(run):
        await tag_run("nightscreen", run.run_id, run.run.purpose)
        async with watching(run):
            yield


@asynccontextmanager
async def calls_settled(run: OpenRun[Any], caller: Caller) -> AsyncIterator[None]:
    """Let the tasks of a run call for the body; what is in flight settles at its end."""
    run.caller, run.step = caller, ASKING
    try:
        yield
    except asyncio.CancelledError:
        run.stops.stop(StopReason.CANCELLED)
        raise
    finally:
        await shield_until_done(run.settle())
        run.step = WRITING


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
