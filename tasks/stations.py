"""One task for each station of the screening line.

They log numbers, which the engine stores in clear; what is computed lives in `steps/`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE

from nightscreen.schemas.money import naira_words
from nightscreen.steps import screening_run
from nightscreen.steps.calling import funding_rounds
from nightscreen.tasks.artifacts import show_quote
from nightscreen.tasks.error_boundary import guard_task
from nightscreen.tasks.run_in_engine import OpenScreening


def load_last_stations() -> None:
    """Load what ends a run: report, pages and workbook take half a second of CPU.

    It is loaded once the first lookup is answered, which need not wait for it, and not later: a
    run goes on for hours, and what is installed may be another version by then.
    """
    from nightscreen.steps import finalize  # noqa: F401, PLC0415 - see above
    from nightscreen.storage import parquet_source, workbook_source  # noqa: F401, PLC0415


@task(name="take in", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def read_input(run: OpenScreening) -> dict[str, int]:
    """Read the input into sealed chunks; write quarantine and problems."""
    await asyncio.to_thread(screening_run.read_input, run.run)
    get_run_logger().info(
        "run %s: %d rows read, %d of them in quarantine",
        run.run_id,
        run.run.rows_read,
        run.run.rows_quarantined,
    )
    return {"read": run.run.rows_read, "quarantined": run.run.rows_quarantined}


@task(name="plan", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def plan(run: OpenScreening) -> int:
    """Judge what each row needs; return how many lookups are to be asked."""
    await asyncio.to_thread(screening_run.make_plan, run.run)
    needed = 0 if run.run.plan is None else run.run.plan.needed
    get_run_logger().info("%d lookups are to be asked", needed)
    return needed


@task(name="price", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def price(run: OpenScreening) -> int:
    """Rank and quote; return the expected cost in micro-naira."""
    quote = await asyncio.to_thread(screening_run.make_price, run.run)
    get_run_logger().info("expected to cost %s", naira_words(quote.expected_micro))
    await show_quote(run.run)
    return quote.expected_micro


@task(name="open books", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def take_opening_balance(run: OpenScreening) -> None:
    """Ask one lookup alone, for an exact opening balance."""
    await funding_rounds.take_opening_balance(run.funded)
    await asyncio.to_thread(load_last_stations)


@task(name="close books", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def take_closing_balance(run: OpenScreening) -> None:
    """Ask the lookup that was held back, for an exact closing balance."""
    await funding_rounds.take_closing_balance(run.funded)


@task(name="write rows", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def write_rows(run: OpenScreening) -> int:
    """Assemble, decide and write every row; return how many."""
    from nightscreen.steps import finalize  # noqa: PLC0415 - as load_last_stations says

    run.rows = await asyncio.to_thread(finalize.write_rows, run.run)
    return run.rows.rows


@task(name="report", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def report(run: OpenScreening) -> dict[str, Any]:
    """Write calls, report and manifest; return the report."""
    from nightscreen.steps import finalize  # noqa: PLC0415 - as load_last_stations says

    if run.rows is None:
        raise KeyError(run.run_id)
    return await asyncio.to_thread(finalize.write_report, run.run, run.rows)
