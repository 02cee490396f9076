"""One task for each station of BVN consent.

They log numbers, which the engine stores in clear; rows and passwords stay with the open run.
"""

from __future__ import annotations

import asyncio
from typing import Any

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE

from nightscreen.operations.bvn import closing as bvn_closing
from nightscreen.operations.bvn import confirming as bvn_confirming
from nightscreen.operations.bvn import requesting as bvn_requesting
from nightscreen.schemas.money import naira_words
from nightscreen.tasks.error_boundary import guard_task
from nightscreen.tasks.run_in_engine import OpenApiRun


@task(name="take in customers", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def take_in_customers(run: OpenApiRun) -> dict[str, int]:
    """Read who is to be asked; write quarantine."""
    await asyncio.to_thread(bvn_requesting.read_input, run.run, run.work)
    return {"read": run.work.rows_read, "quarantined": run.work.rows_quarantined}


@task(name="plan BVN requests", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def plan_requests(run: OpenApiRun) -> int:
    """Find out who is asked in this run, and quote it; return how many."""
    wanted = await asyncio.to_thread(bvn_requesting.plan, run.run, run.work)
    get_run_logger().info("%d customers are to be asked for BVN consent", wanted)
    return wanted


@task(name="request BVNs", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def send_requests(run: OpenApiRun) -> int:
    """Have a one-time password sent to every customer who is to be asked."""
    return await bvn_requesting.ask(run.calls, run.work)


@task(name="take in passwords", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def take_in_passwords(run: OpenApiRun) -> int:
    """Read passwords into memory, judge their requests, and quote; return how many may be sent."""
    await asyncio.to_thread(bvn_confirming.read_input, run.run, run.work)
    wanted = await asyncio.to_thread(bvn_confirming.price, run.run, run.work)
    get_run_logger().info(
        "%d passwords are to be sent on, expected to cost %s",
        wanted,
        naira_words(0 if run.run.quote is None else run.run.quote.expected_micro),
    )
    return wanted


@task(name="confirm BVNs", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def send_passwords(run: OpenApiRun) -> int:
    """Send every password on, once; return how many customers are confirmed."""
    return await bvn_confirming.send(run.calls, run.work)


@task(name="report BVN requests", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def report_requests(run: OpenApiRun) -> dict[str, Any]:
    """Write table, changes, calls, report and manifest of a run that asked."""
    return await asyncio.to_thread(bvn_closing.close_request, run.run, run.work)


@task(name="report BVN confirmations", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def report_confirmations(run: OpenApiRun) -> dict[str, Any]:
    """Write table, changes, calls, report and manifest of a run that confirmed."""
    return await asyncio.to_thread(bvn_closing.close_confirm, run.run, run.work)
