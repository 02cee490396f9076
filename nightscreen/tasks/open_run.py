"""A run of any flow within the engine: opened, handed to its tasks, called for, ended.

Tasks take the run itself: the engine stores no arguments and looks inside no plain object. Two runs
of one process share nothing. What is asked, and what answers mean, is each flow's own.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from prefect import get_run_logger
from prefect.runtime import flow_run

from nightscreen.calling.caller import open_caller
from nightscreen.calling.waiting import wait_and_resume
from nightscreen.config.settings import read_settings
from nightscreen.ops.vitals import ASKING, WRITING
from nightscreen.schemas.api_runs import ApiRunParameters
from nightscreen.schemas.errors import UsageError
from nightscreen.schemas.stops import StopReason
from nightscreen.tasks import events
from nightscreen.tasks.cancellation import handle_sigterm, shield_until_done, to_prefect_state
from nightscreen.tasks.monitoring import paging_false_starts, watching
from nightscreen.tasks.run_in_engine import OpenApiRun, OpenRun
from nightscreen.tasks.server import show_report, tag_run
from nightscreen.tasks.terminal import shown_at_terminal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from prefect.client.schemas.objects import State

    from nightscreen.calling.caller import Caller
    from nightscreen.calling.run import Run
    from nightscreen.config.settings import Settings


P = TypeVar("P", bound=ApiRunParameters)
Opened = TypeVar("Opened", bound=OpenRun[Any])


def named(word: str) -> Callable[[], str]:
    """Return what names a flow run: by the run it resumes, or by a word; nobody's data."""

    def run_name() -> str:
        given = flow_run.parameters.get("parameters", {})
        values = given if isinstance(given, dict) else given.model_dump()
        return f"resume-{values['run']}" if values.get("run") else word

    return run_name


async def in_thread(
    open_run: Callable[[P, Settings], Run], parameters: P, settings: Settings
) -> OpenApiRun:
    """Open a run in a thread."""
    return OpenApiRun(await asyncio.to_thread(open_run, parameters, settings))


@asynccontextmanager
async def opened(
    parameters: ApiRunParameters,
    opening: Callable[[Settings], Awaitable[Opened]],
    *,
    word: str,
) -> AsyncIterator[Opened]:
    """Open a run for the tasks of this process, watch over it, and close it whatever happens.

    Where it comes to nothing by a mistake of usage, and nothing was sent, nothing is left of it.

    Args:
        parameters: what the flow was given.
        opening: opens the run.
        word: what names the flow where the run has no batch name yet.
    """
    with paging_false_starts(word, parameters.run):
        run = await opening(read_settings())
    try:
        async with watched(run):
            yield run
    except UsageError:
        await asyncio.to_thread(run.run.withdraw)
        raise
    finally:
        run.work = None  # passwords may be a part of it
        run.run.close()


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


async def call(run: OpenApiRun, ask: Callable[[OpenApiRun], Awaitable[object]]) -> None:
    """Make the calls of a run beside screening, with a caller of its own."""
    async with calls_settled(run, open_caller(run.run)):
        await ask(run)


async def make_calls(
    run: OpenRun[Any],
    ask: Callable[[], Awaitable[object]],
    *,
    again: Callable[[], object],
    close: Callable[[], object],
) -> None:
    """Make a run's calls, once more after each stop that passes before the deadline.

    Args:
        run: the open run.
        ask: makes the calls that are left.
        again: lets what was lost or failed be asked again.
        close: writes what there is to write of a run that was cancelled; called in a thread.

    Raises:
        ServiceAddressError: the address is not the service's; nothing is left of a new run.
    """
    async with closed_if_cancelled(close):
        await ask()
        while await wait_and_resume(run.run, again):
            await ask()
    run.run.refuse_wrong_address()


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
