"""One task for each check: it asks one shard of its lookups.

A task run that is re-entered joins the calls still in flight and pays for nothing answered. Only
faults nobody foresaw are tried again; what the user or the service must mend is not, and stops are
values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from nightscreen.calling import funding_rounds
from nightscreen.checks.registry import CHECKS
from nightscreen.schemas.errors import UnexpectedFault
from nightscreen.tasks.error_boundary import guard_task
from nightscreen.tasks.run_in_engine import OpenScreening

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


def _task_of(declared: Declaration) -> Task[[OpenScreening, str], Any]:
    """Make the task that asks one shard of a check's lookups."""

    @task(
        name=f"check {declared.name.replace('_', ' ')}",
        task_run_name="{shard}",
        cache_policy=NO_CACHE,
        persist_result=False,
        retries=RE_ENTRIES,
        retry_delay_seconds=RE_ENTRY_DELAYS_S,
        retry_condition_fn=is_unforeseen,
    )
    @guard_task
    async def ask(run: OpenScreening, shard: str) -> dict[str, int]:
        return dict(await funding_rounds.ask_shard(run.funded, shard))

    return ask


BY_CHECK = {check: _task_of(declared) for check, declared in CHECKS.items()}
