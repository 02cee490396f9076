"""Offer a loan product to customers of a finished screening run: one link each, never a second."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from prefect.client.schemas.objects import State

from nightscreen.operations.loans.offer_report import close_offering
from nightscreen.operations.loans.offering import (
    check_product,
    make_again,
    make_links,
    open_offering,
    take_rows,
)
from nightscreen.schemas.offers import OfferLoans
from nightscreen.tasks.error_boundary import sanitize_errors
from nightscreen.tasks.open_run import call, ended, in_thread, make_calls, named, opened
from nightscreen.tasks.own_flow import flow
from nightscreen.tasks.stations import carry_out

if TYPE_CHECKING:
    from nightscreen.tasks.run_in_engine import OpenApiRun

WORD = "loan-offers"
"""Names the flow's runs."""


@flow(
    name="offer-loans",
    flow_run_name=named(WORD),
    persist_result=False,
    validate_parameters=True,
)
async def offer_loans(parameters: OfferLoans) -> dict[str, Any] | State[Any]:
    """Make a link for each chosen customer who has none and return the report.

    Raises:
        UsageError: parameters, settings, folder or product are wrong; no link was made.
        JournalError: the journal cannot be used.
    """
    with sanitize_errors():
        opening = partial(in_thread, open_offering, parameters)
        async with opened(parameters, opening, word=WORD) as run:
            run.work = await carry_out(run, "take rows", take_rows, run.run)
            await make_calls(
                run,
                partial(call, run, _make),
                again=partial(make_again, run.work),
                close=partial(close_offering, run.work),
            )
            report = await carry_out(run, "report offers", close_offering, run.work)
        return await ended(run, report)


async def _make(run: OpenApiRun) -> None:
    if await carry_out(run, "check product", check_product, run.work, run.calls):
        await carry_out(run, "make links", make_links, run.work, run.calls)
