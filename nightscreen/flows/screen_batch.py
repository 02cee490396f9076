"""Screen a batch: file in, metered lookups, enriched Parquet and an account of every naira out."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from prefect.client.schemas.objects import State
from prefect.runtime import flow_run

from nightscreen.config.parameters import ScreenBatch
from nightscreen.config.settings import read_settings
from nightscreen.runs.screening import run_screening
from nightscreen.schemas.naming import batch_name
from nightscreen.tasks.cancellation import to_prefect_state
from nightscreen.tasks.inbox import newest_input
from nightscreen.tasks.own_flow import flow
from nightscreen.tasks.server import show_quote
from nightscreen.tasks.workers import ScreeningRunner


def run_name() -> str:
    """Name a flow run by its batch and purpose; neither holds personal data."""
    given = flow_run.parameters.get("parameters", {})
    values = given if isinstance(given, dict) else given.model_dump()
    if values.get("run"):
        return f"resume-{values['run']}"
    source = values.get("input")
    batch = values.get("batch") or (batch_name(Path(source)) if source else "batch")
    batch, purpose = batch.rstrip("-*"), str(values.get("purpose", "portfolio"))
    return batch if purpose in batch else f"{batch}-{purpose}"


@flow(name="screen-batch", flow_run_name=run_name)
async def screen_batch(parameters: ScreenBatch) -> dict[str, Any] | State[Any]:
    """Screen a batch of customers and return its report.

    Raises:
        UsageError: parameters, settings or input are wrong; nothing was spent.
        JournalError: the journal cannot be used.
    """
    source = parameters.input
    batch = parameters.batch or (batch_name(Path(source)) if source else "")
    runner = ScreeningRunner(batch, parameters.run)
    with runner.may_not_begin():
        settings = read_settings()
        parameters = await asyncio.to_thread(newest_input, parameters)
    report = await run_screening(parameters, settings, runner=runner)
    if parameters.quote_only:
        await show_quote(runner.run)
        return await to_prefect_state(runner.run.run_id, report, signalled=runner.signalled)
    return await runner.ended(report)
