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
from nightscreen.schemas.checks import Check
from nightscreen.schemas.errors import UnexpectedFault
from nightscreen.tasks.error_boundary import guard_task

if TYPE_CHECKING:
    from collections.abc import Callable

    from prefect import Task
    from prefect.client.schemas.objects import State, TaskRun

    from nightscreen.tasks.run_in_engine import OpenScreening

RE_ENTRIES = 2
RE_ENTRY_DELAYS_S = [1.0, 10.0]


async def is_unforeseen(_task: Task[..., Any], _task_run: TaskRun, state: State[Any]) -> bool:
    """Return whether a task run failed by a fault that a second try may not meet.

    It must be async: a sync condition on an async task silently turns retries off.
    """
    fault = await state.aresult(raise_on_failure=False)
    return isinstance(fault, UnexpectedFault)


def _check(name: str) -> Callable[..., Task[[OpenScreening, str], Any]]:
    """Make a task of a check's body."""
    return task(
        name=name,
        task_run_name="{shard}",
        cache_policy=NO_CACHE,
        persist_result=False,
        retries=RE_ENTRIES,
        retry_delay_seconds=RE_ENTRY_DELAYS_S,
        retry_condition_fn=is_unforeseen,
    )


async def _ask(run: OpenScreening, shard: str) -> dict[str, int]:
    return dict(await funding_rounds.ask_shard(run.funded, shard))


@_check("check bank accounts")
@guard_task
async def check_bank_accounts(run: OpenScreening, shard: str) -> dict[str, int]:
    """Ask whether accounts exist and whose they are."""
    return await _ask(run, shard)


@_check("check karma")
@guard_task
async def check_karma(run: OpenScreening, shard: str) -> dict[str, int]:
    """Ask whether identities are on the blacklist."""
    return await _ask(run, shard)


@_check("check ecosystem")
@guard_task
async def check_ecosystem(run: OpenScreening, shard: str) -> dict[str, int]:
    """Ask for histories with other lenders, of those who consented."""
    return await _ask(run, shard)


@_check("check selfies")
@guard_task
async def check_selfies(run: OpenScreening, shard: str) -> dict[str, int]:
    """Ask whether photographs match, of those who consented."""
    return await _ask(run, shard)


BY_CHECK = {
    Check.BANK_ACCOUNT: check_bank_accounts,
    Check.KARMA: check_karma,
    Check.ECOSYSTEM: check_ecosystem,
    Check.SELFIE: check_selfies,
}
