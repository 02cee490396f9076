"""What flows beside screening share: a run opened for their tasks, and a session for its calls.

What is asked, and what answers mean, is each line's own (`steps/`).
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from prefect.runtime import flow_run

from nightscreen.schemas.errors import UsageError
from nightscreen.steps.calling.call_session import open_call_session
from nightscreen.steps.calling.waiting import wait_and_resume
from nightscreen.steps.control import StopReason
from nightscreen.tasks.artifacts import ending_tags, tag_run
from nightscreen.tasks.cancellation import (
    handle_sigterm,
    shield_until_done,
    to_prefect_state,
)
from nightscreen.tasks.monitoring import telling_false_starts, watching
from nightscreen.tasks.open_run import OpenApiRun
from nightscreen.tasks.terminal import shown_at_terminal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from prefect.client.schemas.objects import State

    from nightscreen.schemas.api_runs import ApiRunParameters
    from nightscreen.steps.run import Run


def named(word: str) -> Callable[[], str]:
    """Return what names a flow run: by the run it resumes, or by a word; nobody's data."""

    def run_name() -> str:
        given = flow_run.parameters.get("parameters", {})
        values = given if isinstance(given, dict) else given.model_dump()
        return f"resume-{values['run']}" if values.get("run") else word

    return run_name


@asynccontextmanager
async def opened_errand(
    parameters: ApiRunParameters, open_run: Callable[[], Run], *, word: str
) -> AsyncIterator[OpenApiRun]:
    """Open a run for the tasks of this process, watch over it, and close it whatever happens.

    Where it comes to nothing by a mistake of usage, and nothing was sent, nothing is left of it.

    Args:
        parameters: what the flow was given.
        open_run: opens the run; called in a thread.
        word: what names the flow where the run has no batch name yet.
    """
    with telling_false_starts(word, parameters.run):
        errand = await asyncio.to_thread(open_run)
    run = OpenApiRun(errand)
    try:
        with shown_at_terminal(run), handle_sigterm(run):
            await tag_run("nightscreen", errand.run_id)
            async with watching(run):
                yield run
    except UsageError:
        await asyncio.to_thread(errand.withdraw)
        raise
    finally:
        errand.close()


async def make_calls(
    run: OpenApiRun,
    ask: Callable[[], Awaitable[object]],
    *,
    again: Callable[[], object],
    close: Callable[[OpenApiRun], object],
) -> None:
    """Make a run's calls, once more after each stop that passes before the deadline.

    When cancelled, calls in flight settle, then the run's folder is closed.

    Args:
        run: the open run.
        ask: makes the calls that are left, in an open session.
        again: lets what was lost or failed be asked again.
        close: writes what there is to write of a run that was cancelled; called in a thread.

    Raises:
        ServiceAddressError: the address is not the service's; nothing is left of a new run.
    """
    try:
        while True:
            await _in_a_session(run, ask)
            if not await wait_and_resume(run.run, again):
                break
    except asyncio.CancelledError:
        await shield_until_done(asyncio.to_thread(close, run))
        raise
    run.run.refuse_wrong_address()


async def _in_a_session(run: OpenApiRun, ask: Callable[[], Awaitable[object]]) -> None:
    """Open what calls need, make them, and let what is in flight settle."""
    run.session, run.called = open_call_session(run.run), True
    try:
        await ask()
    except asyncio.CancelledError:
        run.control.stop_run(StopReason.CANCELLED)
        raise
    finally:
        await shield_until_done(_settle(run))


async def ended(run: OpenApiRun, report: dict[str, Any]) -> dict[str, Any] | State[Any]:
    """Tag the flow run with how it ended; return its report, or what the engine is to be told."""
    await tag_run(*ending_tags(report))
    return await to_prefect_state(run, report)


async def _settle(run: OpenApiRun) -> None:
    """Let what is in flight settle, and close what is open for calls."""
    if run.session is not None:
        await run.session.close()
        run.session = None
