"""One task for each check: it asks the check's lookups, in the run's own process or in a worker.

A task run that is re-entered joins the calls still in flight and pays for nothing answered. Only
faults nobody foresaw are tried again; what the user or the service must mend is not, and stops are
values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from nightscreen.checks.registry import CHECKS
from nightscreen.schemas.errors import UnexpectedFault
from nightscreen.tasks.error_boundary import guard_task
from nightscreen.tasks.run_in_engine import NotCallingError, OpenRun

if TYPE_CHECKING:
    from prefect import Task
    from prefect.client.schemas.objects import State, TaskRun

    from nightscreen.checks.declaration import Declaration

RE_ENTRIES = 2
RE_ENTRY_DELAYS_S = [1.0, 10.0]


async def is_unforeseen(_task: Task[..., Any], _task_run: TaskRun, state: State[Any]) -> bool:
    """Return whether a task run failed by a fault that a second try may not meet.

    It must be async: a sync condition on an async task silently turns retries off.
    """
    fault = await state.aresult(raise_on_failure=False)
    return isinstance(fault, UnexpectedFault)


def _task_of(declared: Declaration) -> Task[[OpenRun[Any]], Any]:
    """Make the task that asks a check's lookups."""

    async def ask(run: OpenRun[Any]) -> None:
        if run.asking is None:
            raise NotCallingError(run.run_id)
        await run.asking.ask(declared.name)

    ask.__name__ = f"check_{declared.name}"  # names its span
    return task(
        name=f"check {declared.name.replace('_', ' ')}",
        cache_policy=NO_CACHE,
        persist_result=False,
        retries=RE_ENTRIES,
        retry_delay_seconds=RE_ENTRY_DELAYS_S,
        retry_condition_fn=is_unforeseen,
    )(guard_task(ask))


BY_CHECK = {check: _task_of(declared) for check, declared in CHECKS.items()}
