"""Follow every open loan: what the service says of it now, and what has changed since."""

from __future__ import annotations

from typing import Any

from prefect.client.schemas.objects import State

from nightscreen.operations.loans.tracking import LoanTracking
from nightscreen.schemas.offers import TrackLoans
from nightscreen.tasks.open_run import named
from nightscreen.tasks.own_flow import flow
from nightscreen.tasks.person_runner import run_in_engine


@flow(name="track-loans", flow_run_name=named(LoanTracking.name))
async def track_loans(parameters: TrackLoans) -> dict[str, Any] | State[Any]:
    """Ask about every open reference and return the report.

    Raises:
        UsageError: parameters or settings are wrong; nothing was asked.
        JournalError: the journal cannot be used.
    """
    return await run_in_engine(LoanTracking, parameters)
