"""The tasks of area C: rows taken, the product checked, links made, loans followed, runs reported.

They log numbers, which the engine stores in clear; what is computed lives in `operations/`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE

from nightscreen.operations.loans import offering as offers
from nightscreen.operations.loans import tracking as following
from nightscreen.operations.loans.offer_report import close_offering
from nightscreen.operations.loans.tracking_report import close_tracking
from nightscreen.tasks.error_boundary import guard_task
from nightscreen.tasks.run_in_engine import OpenApiRun


@task(name="take rows", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def take_rows(run: OpenApiRun) -> dict[str, int]:
    """Read the rows with a chosen decision; return how they stand before anything is sent."""
    work = await asyncio.to_thread(offers.take_rows, run.run)
    run.work, counts = work, work.counts()
    get_run_logger().info("%d rows have a chosen decision", sum(counts.values()))
    return counts


@task(name="check product", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def check_product(run: OpenApiRun) -> bool:
    """Find the product on the service's list."""
    return await offers.check_product(run.work, run.calls)


@task(name="make links", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def make_links(run: OpenApiRun) -> int:
    """Make a link for each customer who has none; return how many were made."""
    return await offers.make_links(run.work, run.calls)


@task(name="report offers", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def report_offers(run: OpenApiRun) -> dict[str, Any]:
    """Write offers, calls, report and manifest; return the report."""
    return await asyncio.to_thread(close_offering, run.work)


@task(name="take loans", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def take_loans(run: OpenApiRun) -> int:
    """Find every loan there is a reference for; return how many are to be asked about."""
    work = await asyncio.to_thread(following.take_loans, run.run)
    run.work, due = work, len(work.due)
    get_run_logger().info("%d loans are open", due)
    return due


@task(name="follow loans", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def follow_loans(run: OpenApiRun) -> int:
    """Ask about every open loan; return how many answered."""
    return await following.follow_loans(run.work, run.calls)


@task(name="report loans", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def report_loans(run: OpenApiRun) -> dict[str, Any]:
    """Write loans, changes, calls, report and manifest; return the report."""
    return await asyncio.to_thread(close_tracking, run.work)
