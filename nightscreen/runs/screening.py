"""Screening from the file to the report: every station, from top to bottom.

The Prefect flow, the command line, tests and measurements all screen by `run_screening`. A `Runner`
carries the stations: this process alone, or the engine, which makes each of them a task run.
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
    """Screen a batch and return its report, or its quote where no more is wanted.

    Args:
        parameters: what to screen, or which run to resume.
        settings: where and how.
        transport: carries calls in place of sockets.
        clock: gives the present instant.
        runner: carries the stations; this process alone where left out.

    Raises:
        UsageError: parameters, settings or input are wrong; nothing was sent, nothing is left.
        JournalError: the journal cannot be used; of checks that fail together, the first.
    """
    runner = runner or Runner()
    run = await runner.open(partial(open_screening, parameters, settings, clock=clock))
    async with closing(run), runner.watching(run):
        await runner.step("take in", read_input, run)
        await runner.step("plan", make_plan, run)
        await runner.step("price", make_price, run)
        if parameters.quote_only:
            return quote_document(run)
        # what writes lists and pages takes a tenth of a second to load, and no quote needs it
        from nightscreen.runs.finalize import write_report, write_rows  # noqa: PLC0415

        if await runner.may_spend(run):
            async with runner.asking(lambda: write_report(run, write_rows(run))):
                await _ask(run, runner, transport)
        written = await runner.step("write rows", write_rows, run)
        report: dict[str, Any] = await runner.step("report", write_report, run, written)
        return report


def quote_batch(parameters: ScreenBatch, settings: Settings) -> dict[str, Any]:
    """Return what screening a file would cost; where no event loop runs. Leaves no run behind.

    Raises:
        UsageError: parameters, settings or input are wrong.
    """
    only_quoted = parameters.model_copy(update={"quote_only": True})
    return asyncio.run(run_screening(only_quoted, settings))


async def _ask(run: ScreeningRun, runner: Runner, transport: Transport | None) -> None:
    """Ask until nothing is left that the money and the night allow."""
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

    Entered again after a fault that nobody foresaw, it joins calls in flight and pays for nothing
    answered.
    """
    name = f"check {check.replace('_', ' ')}"
    await runner.step(name, asking.ask, check, re_entered=True)


def to_ask(run: ScreeningRun, transport: Transport | None = None) -> Asking:
    """Open the calls of a run that is planned and priced, in its own process."""
    if run.lookups is None:
        raise ValueError(f"run {run.run_id} is not priced")
    run.stops.proved_before = any(each.reused for each in run.counts.values())
    lookups = run.journal.lookups
    lookups.release_claims(run.lookups)
    lookups.set_closing_lookup(run.lookups, None)
    lookups.clear_stops(run.run_id)  # a run that goes on has kept those that last
    return Asking(
        run=run,
        transport=transport,
        table=run.lookups,
        freshness=run.freshness,
        unread=run.unread,
        stages=None if run.chains is None else Stages(run.chains, run.order),
        shared=run.parameters.workers > 1,
    )
