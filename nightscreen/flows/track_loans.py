"""Follow every open loan: what the service says of it now, and what has changed since."""

from __future__ import annotations

from functools import partial
from typing import Any

from prefect.client.schemas.objects import State

from nightscreen.operations.loans.tracking import follow_again, open_tracking
from nightscreen.operations.loans.tracking_report import close_tracking
from nightscreen.schemas.offers import TrackLoans
from nightscreen.tasks import loans
from nightscreen.tasks.error_boundary import sanitize_errors
from nightscreen.tasks.open_run import call, ended, in_thread, make_calls, named, opened
from nightscreen.tasks.own_flow import flow

WORD = "loans"
"""Names the flow's runs and their progress."""


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
            await loans.take_loans(run)
            await make_calls(
                run,
                partial(call, run, loans.follow_loans),
                again=partial(follow_again, run.work),
                close=partial(close_tracking, run.work),
                word=WORD,
            )
            report = await loans.report_loans(run)
        return await ended(run, report)
