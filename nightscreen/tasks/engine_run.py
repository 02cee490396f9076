"""A run of any flow within the engine: its steps are task runs; watched, stopped in good order.

Nothing of what a step takes or returns reaches the engine: it stores no arguments of tasks and,
with `persist_result=False`, no results. Two runs of one process share nothing. What is asked, and
what answers mean, is each flow's own.
"""

from __future__ import annotations

import asyncio
import inspect
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run

from nightscreen.ops.vitals import ASKING, PAUSED, READING, WRITING
from nightscreen.runs.steps import Steps
from nightscreen.schemas.errors import UnexpectedFault
from nightscreen.schemas.stops import StopReason
from nightscreen.tasks.cancellation import handle_sigterm, shield_until_done, to_prefect_state
from nightscreen.tasks.error_boundary import sanitize_errors
from nightscreen.tasks.monitoring import watching
from nightscreen.tasks.server import show_report, tag_run
from nightscreen.tasks.terminal import shown_at_terminal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from prefect import Task
    from prefect.client.schemas.objects import State, TaskRun

    from nightscreen.calling.asking import Asking
    from nightscreen.calling.caller import Caller
    from nightscreen.calling.run import Run
    from nightscreen.client.api import Client

RE_ENTRIES = 2
RE_ENTRY_DELAYS_S = [1.0, 10.0]
"""How often, and after how many seconds, a task that calls is entered again."""


def named(word: str) -> Callable[[], str]:
    """Return what names a flow run: by the run it resumes, or by a word; nobody's data."""

    def run_name() -> str:
        given = flow_run.parameters.get("parameters", {})
        values = given if isinstance(given, dict) else given.model_dump()
        return f"resume-{values['run']}" if values.get("run") else word

    return run_name


async def is_unforeseen(_task: Task[..., Any], _task_run: TaskRun, state: State[Any]) -> bool:
    """Return whether a task run failed by a fault that a second try may not meet.

    It must be async: a sync condition on an async task silently turns retries off.
    """
    fault = await state.aresult(raise_on_failure=False)
    return isinstance(fault, UnexpectedFault)


@cache
def _task(name: str, *, is_retried: bool) -> Task[[Callable[[], Any]], Any]:
    async def done(work: Callable[[], Any]) -> Any:  # noqa: ANN401 - as the station
        with sanitize_errors():
            if inspect.iscoroutinefunction(work):
                return await work()
            return await asyncio.to_thread(work)

    return task(
        name=name,
        cache_policy=NO_CACHE,
        persist_result=False,
        retries=RE_ENTRIES if is_retried else 0,
        retry_delay_seconds=RE_ENTRY_DELAYS_S,
        retry_condition_fn=is_unforeseen,
    )(done)


async def ask_check(check: str, asking: Asking) -> None:
    """Ask a check's lookups as a task run, in the run's own process or in a worker.

    Entered again after a fault that nobody foresaw, it joins calls in flight and pays for nothing
    answered.
    """
    name = f"check {check.replace('_', ' ')}"
    await _task(name, is_retried=True)(partial(asking.ask, check))


class EngineSteps(Steps):
    """Carries a run's steps as task runs of the flow that it is made in.

    Attributes:
        client: what makes its calls, while it does.
        at_work: which part of its work it was in last, a word of `ops.vitals`.
        signalled: the process was told to end while the run was open.
    """

    run: Run  # the run, once it is open

    def __init__(self, run: Run | None = None) -> None:
        if run is not None:
            self.run = run
        self.client: Client | None = None
        self.at_work = READING
        self.signalled = False

    def phase(self) -> str:
        """Return which part of its work the run is in."""
        rests = self.client is None and self.run.stops.resting_since is not None
        return PAUSED if rests else self.at_work

    def told(self) -> None:
        """Take note that the process was told to end."""
        self.signalled = True

    async def cut(self) -> None:
        """Cut what is still in flight, so that it is written down as in doubt."""
        if self.client is not None:
            await self.client.aclose()

    @asynccontextmanager
    async def watching(self, run: Any) -> AsyncIterator[None]:  # noqa: ANN401, ARG002 - `self.run`
        """Watch over the run, and let signals and whoever typed the command stop it."""
        mine = self.run
        with shown_at_terminal(mine), handle_sigterm(mine.stops, self.told, self.cut):
            await tag_run("nightscreen", mine.run_id, mine.purpose)
            async with watching(mine, self.phase):
                yield

    @asynccontextmanager
    async def asking(self, run: Any) -> AsyncIterator[None]:  # noqa: ANN401 - as in this process
        """Leave a complete folder of what was done where the run is cancelled."""
        try:
            yield
        except asyncio.CancelledError:
            await shield_until_done(asyncio.to_thread(self.write_all, run))
            raise

    def write_all(self, run: Any) -> None:  # noqa: ANN401 - a flow's own run
        """Write the folder of a run that was cancelled."""
        raise NotImplementedError

    @asynccontextmanager
    async def calling(self, caller: Caller) -> AsyncIterator[None]:
        """Settle what is in flight however the body ends."""
        self.client, self.at_work = caller.client, ASKING
        try:
            yield
        except asyncio.CancelledError:
            self.run.stops.stop(StopReason.CANCELLED)
            raise
        finally:
            await shield_until_done(caller.close())
            self.client, self.at_work = None, WRITING

    async def step(
        self,
        name: str,
        station: Callable[..., Any],
        *given: Any,  # noqa: ANN401 - as the station
        re_entered: bool = False,
    ) -> Any:  # noqa: ANN401 - as the station
        """Carry out one step as a task run; one that does not await runs in a thread."""
        return await _task(name, is_retried=re_entered)(partial(station, *given))

    async def ended(self, report: dict[str, Any]) -> dict[str, Any] | State[Any]:
        """Say everywhere how the run ended; return its report, or what the engine is to be told."""
        run, state, reason = self.run, report["state"], report["stop_reason"]
        get_run_logger().info(
            "run %s %s%s: %s naira; results in %s",
            run.run_id,
            state,
            f" ({reason})" if reason else "",
            report["cost"]["total"],
            run.folder.path,
        )
        await show_report(run, report)
        held = state == "completed" and not report["publishable"]
        await tag_run(state, reason, "held back" if held else None)
        return await to_prefect_state(run.run_id, report, signalled=self.signalled)
