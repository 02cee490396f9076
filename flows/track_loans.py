"""Follow every open loan: what the service says of it now, and what has changed since."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from prefect import flow
from prefect.client.schemas.objects import State

from nightscreen.schemas.offers import TrackLoans
from nightscreen.schemas.settings import read_settings
from nightscreen.steps.loans.tracking import follow_again, open_tracking
from nightscreen.steps.loans.tracking_report import close_tracking
from nightscreen.tasks import loans
from nightscreen.tasks.api_runs import ended, make_calls, named, opened_errand
from nightscreen.tasks.error_boundary import sanitize_errors
from nightscreen.tasks.logs import set_up_logs
from nightscreen.tasks.progress import show_progress

if TYPE_CHECKING:
    from nightscreen.tasks.open_run import OpenApiRun

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
        settings = read_settings()
        set_up_logs(settings.log_format)
        opening = partial(open_tracking, parameters, settings)
        async with opened_errand(parameters, opening, word=WORD) as run:
            await loans.take_loans(run)
            async with show_progress(run, WORD):
                await make_calls(
                    run,
                    partial(loans.follow_loans, run),
                    again=partial(follow_again, run.work),
                    close=_close,
                )
            report = await loans.report_loans(run)
        return await ended(run, report)


def _close(run: OpenApiRun) -> None:
    close_tracking(run.work)
