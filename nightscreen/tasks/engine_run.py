"""A run of any flow within the engine: its stations are task runs; watched, stopped in good order.

Nothing of what a station takes or returns reaches the engine: it stores no arguments of tasks and,
with `persist_result=False`, no results. Two runs of one process share nothing. What is asked, and
what answers mean, is each flow's own.
"""

from __future__ import annotations

import asyncio
import inspect
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.runtime import deployment, flow_run

from nightscreen.config.settings import read_settings
from nightscreen.files.person import user_name
from nightscreen.operations.person_run import PersonRun, run_people
from nightscreen.ops.vitals import ASKING, PAUSED, PLANNING, READING, WRITING
from nightscreen.runs.approval import may_spend
from nightscreen.runs.runner import Runner
from nightscreen.schemas.api_runs import ApiRunParameters
from nightscreen.schemas.errors import UnexpectedFault
from nightscreen.schemas.stops import StopReason
from nightscreen.tasks.cancellation import handle_sigterm, shield_until_done, to_prefect_state
from nightscreen.tasks.error_boundary import sanitize_errors
from nightscreen.tasks.monitoring import paging_false_starts, watching
from nightscreen.tasks.server import show_quote, show_report, tag_run
from nightscreen.tasks.terminal import AT_TERMINAL, shown_at_terminal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractContextManager

    from prefect import Task
    from prefect.client.schemas.objects import State, TaskRun

    from nightscreen.calling.caller import Caller
    from nightscreen.calling.run import Run
    from nightscreen.client.api import Client
    from nightscreen.runs.screening_run import ScreeningRun

P = TypeVar("P", bound=ApiRunParameters)
R = TypeVar("R")
RE_ENTRIES = 2
RE_ENTRY_DELAYS_S = [1.0, 10.0]
"""How often, and after how many seconds, a task that calls is entered again."""
_PHASES = {"plan": PLANNING, "write rows": WRITING}
"""The part of its work that a run comes to with a station."""


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


class EngineRunner(Runner):
    """Carries a run's stations as task runs of the flow that it is made in.

    Args:
        batch: named where the run could not even begin.
        resumed: id of the run that is resumed, if any.

    Attributes:
        run: the run, once it is watched.
        client: what makes its calls, while it does.
        at_work: which part of its work it was in last, a word of `ops.vitals`.
        signalled: the process was told to end while the run was open.
    """

    run: Run

    def __init__(self, batch: str = "", resumed: str = "") -> None:
        self._batch = batch
        self._resumed = resumed
        self.client: Client | None = None
        self.at_work = READING
        self.signalled = False

    def may_not_begin(self) -> AbstractContextManager[None]:
        """Report it where the body raises: nobody sits before a scheduled run to read why."""
        return paging_false_starts(self._batch, self._resumed)

    async def open(self, opening: Callable[[], R]) -> R:
        """Open the run; one that could not even begin is reported."""
        with self.may_not_begin():
            return await super().open(opening)

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
    async def watching(self, run: Run) -> AsyncIterator[None]:
        """Watch over the run, and let signals and whoever typed the command stop it."""
        self.run = run
        with shown_at_terminal(run), handle_sigterm(run.stops, self.told, self.cut):
            await tag_run("nightscreen", run.run_id, run.purpose)
            async with watching(run, self.phase):
                yield

    async def may_spend(self, run: ScreeningRun) -> bool:
        """Show the quote; use an approval where there is one, or ask whoever sits there."""
        await show_quote(run)
        self.at_work = PAUSED
        terminal = AT_TERMINAL.get()
        given = await asyncio.to_thread(
            may_spend,
            run,
            by=f"deployment {deployment.name}" if deployment.name else user_name(),
            deployment_id=deployment.id or flow_run.parent_deployment_id,
            ask_here=None if terminal is None else terminal.ask,
        )
        if not given:
            waits = "run %s waits for approval: nightscreen approve %s"
            get_run_logger().info(waits, run.run_id, run.run_id)
        return given

    @asynccontextmanager
    async def asking(self, write_all: Callable[[], object]) -> AsyncIterator[None]:
        """Leave a complete folder of what was done where the run is cancelled."""
        try:
            yield
        except asyncio.CancelledError:
            await shield_until_done(asyncio.to_thread(write_all))
            raise

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
        """Carry out one station as a task run; one that does not await runs in a thread."""
        self.at_work = _PHASES.get(name, self.at_work)
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


async def run_in_engine(
    kind: type[PersonRun[P, Any]], parameters: P
) -> dict[str, Any] | State[Any]:
    """Make a run that asks person by person as a flow; return what the engine is to be told."""
    runner = EngineRunner(kind.name, parameters.run)
    with runner.may_not_begin():
        settings = read_settings()
    report = await run_people(kind, parameters, settings, runner=runner)
    return report if runner.run.only_quotes else await runner.ended(report)
