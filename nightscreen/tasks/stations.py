"""A station of a flow as a task run: one way for all, so that the engine shows what is under way.

What a station does is a function of another room. Nothing of what it takes or returns reaches the
engine: it stores no arguments of tasks and, with `persist_result=False`, no results.
"""

from __future__ import annotations

import asyncio
import inspect
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from nightscreen.schemas.errors import UnexpectedFault
from nightscreen.tasks.error_boundary import guard_task
from nightscreen.tasks.run_in_engine import NotCallingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from prefect import Task
    from prefect.client.schemas.objects import State, TaskRun

    from nightscreen.tasks.run_in_engine import OpenRun

RE_ENTRIES = 2
RE_ENTRY_DELAYS_S = [1.0, 10.0]
"""How often, and after how many seconds, a task that calls is entered again."""


async def is_unforeseen(_task: Task[..., Any], _task_run: TaskRun, state: State[Any]) -> bool:
    """Return whether a task run failed by a fault that a second try may not meet.

    It must be async: a sync condition on an async task silently turns retries off.
    """
    fault = await state.aresult(raise_on_failure=False)
    return isinstance(fault, UnexpectedFault)


@cache
def _task(name: str, *, is_retried: bool) -> Task[[OpenRun[Any], Callable[[], Any]], Any]:
    async def done(_run: OpenRun[Any], work: Callable[[], Any]) -> Any:  # noqa: ANN401 - as the station
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
    )(guard_task(done))


async def carry_out(
    run: OpenRun[Any],
    name: str,
    station: Callable[..., Any],
    *given: Any,  # noqa: ANN401 - as the station
    is_retried: bool = False,
) -> Any:  # noqa: ANN401 - as the station
    """Carry out a station as a task run; one that does not await runs in a thread.

    Args:
        run: the open run that it is a part of.
        name: what the engine calls it.
        station: what is done.
        given: what it takes.
        is_retried: it is entered again after a fault that nobody foresaw, as a station that calls
            may be: it joins calls in flight and pays for nothing answered.
    """
    return await _task(name, is_retried=is_retried)(run, partial(station, *given))


async def ask_check(run: OpenRun[Any], check: str) -> None:
    """Ask a check's lookups as a task run, in the run's own process or in a worker.

    Raises:
        NotCallingError: the run has nothing open for calls.
    """
    if run.asking is None:
        raise NotCallingError(run.run_id)
    name = f"check {check.replace('_', ' ')}"
    await carry_out(run, name, run.asking.ask, check, is_retried=True)
