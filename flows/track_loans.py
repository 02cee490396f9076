"""Follow every open loan: what the service says of it now, and what has changed since."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prefect import flow
from prefect.client.schemas.objects import State

from nightscreen.schemas.offers import TrackLoans
from nightscreen.schemas.settings import read_settings
from nightscreen.steps.loans.tracking import open_tracking
from nightscreen.steps.loans.tracking_report import close_tracking
from nightscreen.tasks import loans
from nightscreen.tasks.edge import sanitising
from nightscreen.tasks.errands import at_the_desk, named, opened_errand
from nightscreen.tasks.logs import set_up_logs
from nightscreen.tasks.progress import show_progress
from nightscreen.tasks.stopping import as_the_engine_has_it

if TYPE_CHECKING:
    from nightscreen.tasks.live import LiveErrand


@flow(
    name="track-loans", flow_run_name=named("loans"), persist_result=False, validate_parameters=True
)
async def track_loans(parameters: TrackLoans) -> dict[str, Any] | State[Any]:
    """Ask about every open reference and return the report.

    Raises:
        UsageError: parameters or settings are wrong; nothing was asked.
        JournalError: the journal cannot be used.
    """
    with sanitising():
        settings = read_settings()
        set_up_logs(settings.log_format)
        async with opened_errand(lambda: open_tracking(parameters, settings)) as run:
            await loans.take_loans(run.run_id)
            async with at_the_desk(run, _close), show_progress(run, "loans"):
                await loans.follow_loans(run.run_id)
            report = await loans.report_loans(run.run_id)
        return await as_the_engine_has_it(run, report)


def _close(run: LiveErrand) -> None:
    close_tracking(run.work)
