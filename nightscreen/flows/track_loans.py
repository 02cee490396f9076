"""Follow every open loan: what the service says of it now, and what has changed since."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from prefect.client.schemas.objects import State

from nightscreen.operations.loans.tracking import (
    follow_again,
    follow_loans,
    open_tracking,
    take_loans,
)
from nightscreen.operations.loans.tracking_report import close_tracking
from nightscreen.schemas.offers import TrackLoans
from nightscreen.tasks.error_boundary import sanitize_errors
from nightscreen.tasks.open_run import call, ended, in_thread, make_calls, named, opened
from nightscreen.tasks.own_flow import flow
from nightscreen.tasks.stations import carry_out

if TYPE_CHECKING:
    from nightscreen.tasks.run_in_engine import OpenApiRun

WORD = "loans"
"""Names the flow's runs."""


@flow(name="track-loans", flow_run_name=named(WORD), persist_result=False, validate_parameters=True)
async def track_loans(parameters: TrackLoans) -> dict[str, Any] | State[Any]:
    """Ask about every open reference and return the report.

    Raises:
        UsageError: parameters or settings are wrong; nothing was asked.
        JournalError: the journal cannot be used.
    """
    with sanitize_errors():
        opening = partial(in_thread, open_tracking, parameters)
        async with opened(parameters, opening, word=WORD) as run:
            run.work = await carry_out(run, "take loans", take_loans, run.run)
            await make_calls(
                run,
                partial(call, run, _follow),
                again=partial(follow_again, run.work),
                close=partial(close_tracking, run.work),
            )
            report = await carry_out(run, "report loans", close_tracking, run.work)
        return await ended(run, report)


async def _follow(run: OpenApiRun) -> None:
    await carry_out(run, "follow loans", follow_loans, run.work, run.calls)
