"""One task for each station of the screening line.

They log numbers, which the engine stores in clear; what is computed lives in `steps/`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE

from nightscreen.schemas.money import naira_words
from nightscreen.steps import finalize, screening_run
from nightscreen.steps.calling import funding_rounds as asking
from nightscreen.tasks import run_registry
from nightscreen.tasks.artifacts import ending_tags, show_quote, show_report, tag_run
from nightscreen.tasks.error_boundary import guard_task
from nightscreen.tasks.events import tell_events
from nightscreen.tasks.logs import say_report


@task(name="take in", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def take_in(run_id: str) -> dict[str, int]:
    """Read the input into sealed chunks; write quarantine and problems."""
    run = run_registry.get_run(run_id).line
    await asyncio.to_thread(screening_run.take_in, run)
    get_run_logger().info(
        "run %s: %d rows read, %d of them in quarantine",
        run_id,
        run.rows_read,
        run.rows_quarantined,
    )
    return {"read": run.rows_read, "quarantined": run.rows_quarantined}


@task(name="plan", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def plan(run_id: str) -> int:
    """Judge what each row needs; return how many lookups are to be asked."""
    run = run_registry.get_run(run_id).line
    await asyncio.to_thread(screening_run.make_plan, run)
    needed = 0 if run.plan is None else run.plan.needed
    get_run_logger().info("%d lookups are to be asked", needed)
    return needed


@task(name="price", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def price(run_id: str) -> int:
    """Rank and quote; return the expected cost in micro-naira."""
    run = run_registry.get_run(run_id).line
    quote = await asyncio.to_thread(screening_run.make_price, run)
    get_run_logger().info("expected to cost %s", naira_words(quote.expected_micro))
    await show_quote(run)
    return quote.expected_micro


@task(name="open books", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def open_books(run_id: str) -> None:
    """Ask one lookup alone, for an exact opening balance."""
    await asking.open_books(run_registry.asking_of(run_id))


@task(name="close books", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def close_books(run_id: str) -> None:
    """Ask the lookup that was held back, for an exact closing balance."""
    await asking.close_books(run_registry.asking_of(run_id))


@task(name="write rows", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def write_rows(run_id: str) -> int:
    """Assemble, decide and write every row; return how many."""
    run = run_registry.get_run(run_id)
    run.rows = await asyncio.to_thread(finalize.write_rows, run.line)
    return run.rows.rows


@task(name="report", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def report(run_id: str) -> dict[str, Any]:
    """Write calls, report and manifest; return the report."""
    run = run_registry.get_run(run_id)
    if run.rows is None:
        raise KeyError(run_id)
    report = await asyncio.to_thread(finalize.write_report, run.line, run.rows)
    get_run_logger().info(
        "run %s %s%s: %s naira; results in %s",
        run_id,
        report["state"],
        f" ({report['stop_reason']})" if report["stop_reason"] else "",
        report["cost"]["total"],
        run.line.folder.path,
    )
    say_report(report)
    tell_events(report)
    await show_report(run.line, report)
    await tag_run(*ending_tags(report))
    return report
