"""Screen a batch: file in, metered lookups, enriched Parquet and an account of every naira out."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run

from nightscreen.schemas.errors import UsageError
from nightscreen.schemas.parameters import ScreenBatch
from nightscreen.schemas.settings import read_settings
from nightscreen.steps.calling.coordinator import ask_round, let_go
from nightscreen.steps.calling.funding_rounds import (
    FundingRounds,
    ask_again,
    next_round,
    open_rounds,
)
from nightscreen.steps.calling.waiting import wait_and_resume
from nightscreen.steps.control import StopReason
from nightscreen.steps.quoting import quote_document
from nightscreen.steps.screening_run import open_screening
from nightscreen.steps.values.file_names import batch_of
from nightscreen.tasks import stations
from nightscreen.tasks.approval import approved
from nightscreen.tasks.artifacts import tag_run
from nightscreen.tasks.cancellation import handle_sigterm, shield_until_done, to_prefect_state
from nightscreen.tasks.checks import BY_CHECK
from nightscreen.tasks.concurrency_leases import sharing_caps
from nightscreen.tasks.error_boundary import sanitize_errors
from nightscreen.tasks.inbox import newest_input
from nightscreen.tasks.logs import set_up_logs
from nightscreen.tasks.monitoring import telling_false_starts, watching
from nightscreen.tasks.open_run import OpenScreening
from nightscreen.tasks.progress import show_progress
from nightscreen.tasks.terminal import shown_at_terminal
from nightscreen.tasks.workers import called, require_worker_available

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from nightscreen.schemas.checks import Check

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
    with sanitize_errors():
        async with _opened(parameters) as run:
            report = await _screen(run)
        return await to_prefect_state(run, report)


async def _screen(run: OpenScreening) -> dict[str, Any]:
    """Carry a batch along the line."""
    await stations.take_in(run)
    await stations.plan(run)
    await stations.price(run)
    if run.run.parameters.quote_only:
        return quote_report(run)
    if await approved(run.run):
        await _ask(run)
        while await wait_and_resume(run.run, partial(ask_again, run.run)):
            await _ask(run)
    await stations.write_rows(run)
    return await stations.report(run)


async def _ask(run: OpenScreening) -> None:
    """Ask what is funded, between an opening and a closing call."""
    async with called(run), _asking(run) as rounds, show_progress(run):
        await stations.take_opening_balance(run)
        while shards := await _next_round(run, rounds):
            await _ask_all(run, shards)
        await stations.take_closing_balance(run)


def quote_report(run: OpenScreening) -> dict[str, Any]:
    """Return the quote of a run that goes no further; closing it leaves nothing behind."""
    return quote_document(run.run)


@asynccontextmanager
async def _opened(parameters: ScreenBatch) -> AsyncIterator[OpenScreening]:
    """Open a run for the tasks of this process, and close it whatever happens."""
    source = parameters.input
    batch = parameters.batch or (batch_of(Path(source)) if source else "")
    with telling_false_starts(batch, parameters.run):
        settings = read_settings()
        set_up_logs(settings.log_format)
        parameters = await asyncio.to_thread(newest_input, parameters)
        await require_worker_available(parameters, settings)
        line = await asyncio.to_thread(open_screening, parameters, settings)
    run = OpenScreening(line)
    try:
        with shown_at_terminal(run), handle_sigterm(run):
            await tag_run("nightscreen", line.run_id, line.wanted.purpose.value)
            async with watching(run):
                yield run
    except UsageError:
        line.withdraw()
        raise
    finally:
        line.close()


@asynccontextmanager
async def _asking(run: OpenScreening) -> AsyncIterator[FundingRounds]:
    """Open the windows; when cancelled, let in-flight calls settle before going on."""
    gathering, settings = run.gathering, run.run.settings
    run.called = True
    rounds = run.rounds = open_rounds(
        run.run,
        layout=None if gathering is None else gathering.layout(),
        shared_caps=settings.share_caps or run.run.parameters.workers > 1,
    )
    run.session = rounds.session
    if gathering is not None:
        gathering.rounds = rounds
    try:
        async with sharing_caps(rounds.session), _settling(run):
            yield rounds
    finally:
        await shield_until_done(_settle(run))


@asynccontextmanager
async def _settling(run: OpenScreening) -> AsyncIterator[None]:
    """Let calls settle while their slots are still held; when cancelled, write what was done."""
    try:
        yield
    except asyncio.CancelledError:
        run.run.control.stop_run(StopReason.CANCELLED)
        await shield_until_done(_close_cancelled(run))
        raise
    finally:
        await shield_until_done(_settle(run))


async def _settle(run: OpenScreening) -> None:
    """Let what is in flight settle, and close what is open for calls."""
    if run.gathering is not None:
        await let_go(run.gathering)
    if run.session is not None:
        await run.session.close()
        run.session = run.rounds = None


async def _close_cancelled(run: OpenScreening) -> None:
    """Settle what is in flight and leave a complete folder of what was done."""
    await _settle(run)
    from nightscreen.steps import finalize  # noqa: PLC0415 - as tasks.stations.load_last_stations

    rows = await asyncio.to_thread(finalize.write_rows, run.run)
    await asyncio.to_thread(finalize.write_report, run.run, rows)


async def _next_round(run: OpenScreening, rounds: FundingRounds) -> dict[Check, list[str]]:
    """Fund the next round; what parts are to read is laid out beside the loop."""
    if run.gathering is None:
        return next_round(rounds)
    return await asyncio.to_thread(next_round, rounds)


async def _ask_all(run: OpenScreening, shards: dict[Check, list[str]]) -> None:
    """Ask every shard of a round, each check at its own pace, or have parts ask them."""
    if run.gathering is not None:
        await ask_round(run.gathering, shards)
        return
    async with asyncio.TaskGroup() as group:
        for check, names in shards.items():
            slots = asyncio.Semaphore(SHARDS_AT_ONCE)
            for name in names:
                group.create_task(_ask_one(check, run, name, slots))


async def _ask_one(check: Check, run: OpenScreening, name: str, slots: asyncio.Semaphore) -> None:
    async with slots:
        await BY_CHECK[check](run, name)
