"""The tasks of a pull: one for each shard of customers, and one that closes the run.

They log numbers, which the engine stores in clear; what is computed lives in `operations/`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from nightscreen.operations.transactions.report import close_pull
from nightscreen.operations.transactions.sync import pull_shard
from nightscreen.tasks.checks import RE_ENTRIES, RE_ENTRY_DELAYS_S, is_unforeseen
from nightscreen.tasks.error_boundary import guard_task
from nightscreen.tasks.run_in_engine import OpenApiRun


@task(
    name="pull customers",
    task_run_name="shard-{shard}",
    cache_policy=NO_CACHE,
    persist_result=False,
    retries=RE_ENTRIES,
    retry_delay_seconds=RE_ENTRY_DELAYS_S,
    retry_condition_fn=is_unforeseen,
)
@guard_task
async def pull_customers(run: OpenApiRun, shard: int) -> dict[str, int]:
    """Pull the customers of a shard; return how many came to which end."""
    return await pull_shard(run.work, run.calls, shard)


@task(name="report pull", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def report_pull(run: OpenApiRun) -> dict[str, Any]:
    """Write typed records, changes, quarantine, calls and report; return the report."""
    return await asyncio.to_thread(close_pull, run.work)
