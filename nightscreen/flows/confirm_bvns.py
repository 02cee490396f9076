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
from nightscreen.operations.bvn.confirming import open_confirm, price, send, send_again
from nightscreen.operations.bvn.confirming import read_input as read_passwords
from nightscreen.operations.bvn.requesting import ask, ask_again, open_request, plan
from nightscreen.operations.bvn.requesting import read_input as read_customers
from nightscreen.schemas.bvn import ConfirmBvns, RequestBvns
from nightscreen.tasks.error_boundary import sanitize_errors
from nightscreen.tasks.open_run import call, ended, make_calls, named, opened
from nightscreen.tasks.own_flow import flow
from nightscreen.tasks.run_in_engine import OpenApiRun
from nightscreen.tasks.stations import carry_out

if TYPE_CHECKING:
    from collections.abc import Callable

    from nightscreen.calling.run import Run
    from nightscreen.config.settings import Settings
    from nightscreen.schemas.api_runs import ApiRunParameters

REQUESTS, CONFIRMATIONS = "request-bvns", "confirm-bvns"
"""Name the flows' runs."""
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
            await carry_out(run, "take in customers", read_customers, run.run, run.work)
            await carry_out(run, "plan BVN requests", plan, run.run, run.work)
            if parameters.quote_only:
                return await asyncio.to_thread(quote_request, run.run, run.work)
            await make_calls(
                run,
                partial(call, run, _request),
                again=partial(ask_again, run.run, run.work),
                close=partial(close_request, run.run, run.work),
            )
            report = await carry_out(run, "report BVN requests", close_request, run.run, run.work)
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
            await carry_out(run, "take in passwords", read_passwords, run.run, run.work)
            await carry_out(run, "price", price, run.run, run.work)
            if parameters.quote_only:
                return await asyncio.to_thread(quote_confirm, run.run, run.work)
            await make_calls(
                run,
                partial(call, run, _confirm),
                again=partial(send_again, run.run, run.work),
                close=partial(close_confirm, run.run, run.work),
            )
            report = await carry_out(
                run, "report BVN confirmations", close_confirm, run.run, run.work
            )
        return await ended(run, report)


async def _request(run: OpenApiRun) -> None:
    await carry_out(run, "request BVNs", ask, run.calls, run.work)


async def _confirm(run: OpenApiRun) -> None:
    await carry_out(run, "confirm BVNs", send, run.calls, run.work)


async def _open(
    open_run: Callable[[P, Settings], tuple[Run, Any]], parameters: P, settings: Settings
) -> OpenApiRun:
    """Open a run with what its stations share."""
    run, work = await asyncio.to_thread(open_run, parameters, settings)
    opened_run = OpenApiRun(run)
    opened_run.work = work
    return opened_run
