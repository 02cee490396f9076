"""Screening from the file to the report: every station, from top to bottom.

The Prefect flow, the command line, tests and benchmarks all call `run_screening`. A `Runner` runs
the stations in this process, or in the engine as task runs.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from nightscreen.calling.asking import (
    Asking,
    Stages,
    ask_closing_lookups,
    ask_opening_lookup,
    requeue_lost,
)
from nightscreen.calling.caller import wait_and_resume
from nightscreen.runs.intake import read_input
from nightscreen.runs.run_report import quote_document
from nightscreen.runs.runner import Runner, closing
from nightscreen.runs.screening_run import make_plan, make_price, open_screening
from nightscreen.schemas.clock import Clock, system_clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nightscreen.client.transport import Transport
    from nightscreen.config.parameters import ScreenBatch
    from nightscreen.config.settings import Settings
    from nightscreen.runs.screening_run import ScreeningRun


async def run_screening(
    parameters: ScreenBatch,
    settings: Settings,
    *,
    transport: Transport | None = None,
    clock: Clock = system_clock,
    runner: Runner | None = None,
) -> dict[str, Any]:
    """Screen a batch and return its report, or only its quote if requested.

    Args:
        parameters: what to screen, or which run to resume.
        settings: where and how.
        transport: replaces sockets.
        clock: gives the present instant.
        runner: runs the stations; by default this process.

    Raises:
        UsageError: parameters, settings or input are wrong; nothing was sent, nothing is left.
        JournalError: the journal cannot be used; the first of checks that fail together.
    """
    runner = runner or Runner()
    run = await asyncio.to_thread(open_screening, parameters, settings, clock=clock)
    async with closing(run), runner.watching(run):
        await runner.step("take in", read_input, run)
        await runner.step("plan", make_plan, run)
        await runner.step("price", make_price, run)
        if parameters.quote_only:
            return quote_document(run)
        # loading this takes a tenth of a second, and no quote needs it
        from nightscreen.runs.finalize import write_report, write_rows  # noqa: PLC0415

        if await runner.may_spend(run, quote_document(run)):
            async with runner.asking(lambda: write_report(run, write_rows(run))):
                await _ask(run, runner, transport)
        written = await runner.step("write rows", write_rows, run)
        report: dict[str, Any] = await runner.step("report", write_report, run, written)
        return report


def quote_batch(parameters: ScreenBatch, settings: Settings) -> dict[str, Any]:
    """Return what screening a file would cost; no run is saved. Not for use in an event loop.

    Raises:
        UsageError: parameters, settings or input are wrong.
    """
    only_quoted = parameters.model_copy(update={"quote_only": True})
    return asyncio.run(run_screening(only_quoted, settings))


async def _ask(run: ScreeningRun, runner: Runner, transport: Transport | None) -> None:
    """Ask until no lookup is left that money and deadline allow."""
    while True:
        asking = to_ask(run, transport)
        async with runner.calling(asking):
            await runner.step("open books", ask_opening_lookup, asking)
            async with runner.sharing(asking):
                checks: Sequence[str] = run.operations
                while checks:
                    async with asyncio.TaskGroup() as group:
                        for check in checks:
                            group.create_task(ask_check(check, asking, runner))
                    checks = run.stops.renew_quotas(run.clock())
            await runner.step("close books", ask_closing_lookups, asking)
        if not await wait_and_resume(run, partial(requeue_lost, asking)):
            break
    run.refuse_wrong_address()


async def ask_check(check: str, asking: Asking, runner: Runner) -> None:
    """Ask a check's lookups, in the run's own process or in a worker.

    Called again after an unexpected fault, it joins calls in flight and does not repeat answered
    ones.
    """
    name = f"check {check.replace('_', ' ')}"
    await runner.step(name, asking.ask, check, re_entered=True)


def to_ask(run: ScreeningRun, transport: Transport | None = None) -> Asking:
    """Return what makes the calls of a priced run, in the run's own process."""
    if run.lookups is None:
        raise ValueError(f"run {run.run_id} is not priced")
    run.stops.proved_before = any(each.reused for each in run.counts.values())
    lookups = run.journal.lookups
    lookups.release_claims(run.lookups)
    lookups.set_closing_lookup(run.lookups, None)
    lookups.clear_stops(run.run_id)  # `run.stops` has those that still apply
    return Asking(
        run=run,
        transport=transport,
        table=run.lookups,
        freshness=run.freshness,
        unread=run.unread,
        stages=None if run.chains is None else Stages(run.chains, run.order),
        shared=run.parameters.workers > 1,
    )
