"""Loans: a product offered to customers by one link each, never a second; open loans followed."""

from __future__ import annotations

from typing import Any

from prefect.client.schemas.objects import State

from nightscreen.operations.loans.offers import LoanOffers
from nightscreen.operations.loans.tracking import LoanTracking
from nightscreen.schemas.offers import OfferLoans, TrackLoans
from nightscreen.tasks.engine_run import named, run_in_engine
from nightscreen.tasks.own_flow import flow


@flow(name="offer-loans", flow_run_name=named(LoanOffers.name))
async def offer_loans(parameters: OfferLoans) -> dict[str, Any] | State[Any]:
    """Make a link for each chosen customer of a finished run who has none; return the report.

    Raises:
        UsageError: parameters, settings, folder or product are wrong; no link was made.
        JournalError: the journal cannot be used.
    """
    return await run_in_engine(LoanOffers, parameters)


@flow(name="track-loans", flow_run_name=named(LoanTracking.name))
async def track_loans(parameters: TrackLoans) -> dict[str, Any] | State[Any]:
    """Ask about every open reference, and report what the service says and what has changed.

    Raises:
        UsageError: parameters or settings are wrong; nothing was asked.
        JournalError: the journal cannot be used.
    """
    return await run_in_engine(LoanTracking, parameters)
