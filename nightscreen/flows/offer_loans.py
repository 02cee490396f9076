"""Offer a loan product to customers of a finished screening run: one link each, never a second."""

from __future__ import annotations

from typing import Any

from prefect.client.schemas.objects import State

from nightscreen.operations.loans.offers import LoanOffers
from nightscreen.schemas.offers import OfferLoans
from nightscreen.tasks.open_run import named
from nightscreen.tasks.own_flow import flow
from nightscreen.tasks.person_runner import run_in_engine


@flow(name="offer-loans", flow_run_name=named(LoanOffers.name))
async def offer_loans(parameters: OfferLoans) -> dict[str, Any] | State[Any]:
    """Make a link for each chosen customer who has none and return the report.

    Raises:
        UsageError: parameters, settings, folder or product are wrong; no link was made.
        JournalError: the journal cannot be used.
    """
    return await run_in_engine(LoanOffers, parameters)
