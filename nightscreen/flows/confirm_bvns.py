"""BVN consent in two stages: ask customers for it, then send on the passwords they supplied."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from prefect.client.schemas.objects import State

from nightscreen.operations.bvn.closing import (
    close_confirm,
    close_request,
    quote_confirm,
    quote_request,
)
from nightscreen.operations.bvn.confirming import open_confirm, send_again
from nightscreen.operations.bvn.requesting import ask_again, open_request
from nightscreen.schemas.bvn import ConfirmBvns, RequestBvns
from nightscreen.tasks import bvn_consent as stations
from nightscreen.tasks.error_boundary import sanitize_errors
from nightscreen.tasks.open_run import call, ended, make_calls, named, opened
from nightscreen.tasks.own_flow import flow
from nightscreen.tasks.run_in_engine import OpenApiRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from nightscreen.calling.run import Run
    from nightscreen.config.settings import Settings
    from nightscreen.schemas.api_runs import ApiRunParameters

REQUESTS, CONFIRMATIONS = "request-bvns", "confirm-bvns"
"""Name the flows' runs and their progress."""
P = TypeVar("P", bound="ApiRunParameters")


@flow(
    name="request-bvns",
    flow_run_name=named(REQUESTS),
    persist_result=False,
    validate_parameters=True,
)
async def request_bvns(parameters: RequestBvns) -> dict[str, Any] | State[Any]:
    """Have a one-time password sent to every customer of a file who was not asked before.

    Raises:
        UsageError: parameters, settings or input are wrong; nothing was sent.
        JournalError: the journal cannot be used.
    """
    with sanitize_errors():
        opening = partial(_open, open_request, parameters)
        async with opened(parameters, opening, word=REQUESTS) as run:
            await stations.take_in_customers(run)
            await stations.plan_requests(run)
            if parameters.quote_only:
                return await asyncio.to_thread(quote_request, run.run, run.work)
            await make_calls(
                run,
                partial(call, run, stations.send_requests),
                again=partial(ask_again, run.run, run.work),
                close=partial(close_request, run.run, run.work),
                word=REQUESTS,
            )
            report = await stations.report_requests(run)
        return await ended(run, report)


@flow(
    name="confirm-bvns",
    flow_run_name=named(CONFIRMATIONS),
    persist_result=False,
    validate_parameters=True,
)
async def confirm_bvns(parameters: ConfirmBvns) -> dict[str, Any] | State[Any]:
    """Send on the passwords that customers supplied; each confirmation is charged.

    Raises:
        UsageError: parameters, settings or input are wrong; nothing was sent.
        JournalError: the journal cannot be used.
    """
    with sanitize_errors():
        opening = partial(_open, open_confirm, parameters)
        async with opened(parameters, opening, word=CONFIRMATIONS) as run:
            await stations.take_in_passwords(run)
            if parameters.quote_only:
                return await asyncio.to_thread(quote_confirm, run.run, run.work)
            await make_calls(
                run,
                partial(call, run, stations.send_passwords),
                again=partial(send_again, run.run, run.work),
                close=partial(close_confirm, run.run, run.work),
                word=CONFIRMATIONS,
            )
            report = await stations.report_confirmations(run)
        return await ended(run, report)


async def _open(
    open_run: Callable[[P, Settings], tuple[Run, Any]], parameters: P, settings: Settings
) -> OpenApiRun:
    """Open a run with what its stations share."""
    run, work = await asyncio.to_thread(open_run, parameters, settings)
    opened_run = OpenApiRun(run)
    opened_run.work = work
    return opened_run
