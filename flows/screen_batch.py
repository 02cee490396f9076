"""Screen a batch: file in, metered lookups, enriched Parquet and an account of every naira out."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefect.client.schemas.objects import State
from prefect.runtime import flow_run

from nightscreen.schemas.parameters import ScreenBatch
from nightscreen.steps.calling.coordinator import ask_parts
from nightscreen.steps.calling.funding_rounds import (
    ask_again,
    next_round,
    open_rounds,
)
from nightscreen.steps.quoting import quote_document
from nightscreen.steps.screening_run import open_screening
from nightscreen.steps.values.file_names import batch_of
from nightscreen.tasks import stations
from nightscreen.tasks.approval import approved
from nightscreen.tasks.cancellation import to_prefect_state
from nightscreen.tasks.checks import BY_CHECK
from nightscreen.tasks.error_boundary import sanitize_errors
from nightscreen.tasks.inbox import newest_input
from nightscreen.tasks.open_run import OpenScreening, calling, ended, make_calls, opened
from nightscreen.tasks.own_flow import flow
from nightscreen.tasks.workers import parts_called, require_worker_available

if TYPE_CHECKING:
    from nightscreen.schemas.checks import Check
    from nightscreen.schemas.settings import Settings
    from nightscreen.steps.calling.call_session import CallSession

PROGRESS = "screening"
"""Names the progress of a run."""
SHARDS_AT_ONCE = 3
"""Shards of one check in flight at a time, so that the window never runs dry between two."""


def run_name() -> str:
    """Name a flow run by its batch and purpose; neither holds personal data."""
    given = flow_run.parameters.get("parameters", {})
    values = given if isinstance(given, dict) else given.model_dump()
    if values.get("run"):
        return f"resume-{values['run']}"
    source = values.get("input")
    batch = values.get("batch") or (batch_of(Path(source)) if source else "batch")
    batch, purpose = batch.rstrip("-*"), str(values.get("purpose", "portfolio"))
    return batch if purpose in batch else f"{batch}-{purpose}"


@flow(name="screen-batch", flow_run_name=run_name, persist_result=False, validate_parameters=True)
async def screen_batch(parameters: ScreenBatch) -> dict[str, Any] | State[Any]:
    """Screen a batch of customers and return its report.

    Raises:
        UsageError: parameters, settings or input are wrong; nothing was spent.
        JournalError: the journal cannot be used.
    """
    source = parameters.input
    batch = parameters.batch or (batch_of(Path(source)) if source else "")
    with sanitize_errors():
        async with opened(parameters, partial(_open, parameters), word=batch) as run:
            await stations.read_input(run)
            await stations.plan(run)
            await stations.price(run)
            if parameters.quote_only:
                return await to_prefect_state(run, quote_report(run))
            if await approved(run.run):
                again, close = partial(ask_again, run.run), partial(_close, run)
                await make_calls(run, partial(_ask, run), again=again, close=close, word=PROGRESS)
            await stations.write_rows(run)
            report = await stations.report(run)
        return await ended(run, report)


async def _open(parameters: ScreenBatch, settings: Settings) -> OpenScreening:
    """Open the run of the newest file, where its workers are there."""
    parameters = await asyncio.to_thread(newest_input, parameters)
    await require_worker_available(parameters, settings)
    return OpenScreening(await asyncio.to_thread(open_screening, parameters, settings))


async def _ask(run: OpenScreening) -> None:
    """Ask what is funded, between an opening and a closing call."""
    async with calling(run, partial(_open_rounds, run)):
        await stations.take_opening_balance(run)
        async with parts_called(run) as gathering:
            if gathering is not None:
                await ask_parts(gathering)
        while shards := next_round(run.funded):
            await _ask_all(run, shards)
        await stations.take_closing_balance(run)


def _open_rounds(run: OpenScreening) -> CallSession:
    """Open what pays for the run's calls."""
    run.rounds = open_rounds(run.run)
    return run.rounds.session


def _close(run: OpenScreening) -> None:
    """Leave a complete folder of what was done by a run that was cancelled."""
    from nightscreen.steps import finalize  # noqa: PLC0415 - as tasks.stations.load_last_stations

    finalize.write_report(run.run, finalize.write_rows(run.run))


def quote_report(run: OpenScreening) -> dict[str, Any]:
    """Return the quote of a run that goes no further; closing it leaves nothing behind."""
    return quote_document(run.run)


async def _ask_all(run: OpenScreening, shards: dict[Check, list[str]]) -> None:
    """Ask every shard of a round, each check at its own pace."""
    async with asyncio.TaskGroup() as group:
        for check, names in shards.items():
            slots = asyncio.Semaphore(SHARDS_AT_ONCE)
            for name in names:
                group.create_task(_ask_one(check, run, name, slots))


async def _ask_one(check: Check, run: OpenScreening, name: str, slots: asyncio.Semaphore) -> None:
    async with slots:
        await BY_CHECK[check](run, name)
