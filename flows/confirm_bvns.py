"""BVN consent in two stages: ask customers for it, then send on the passwords they supplied."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from prefect import flow
from prefect.client.schemas.objects import State

from nightscreen.schemas.bvn import ConfirmBvns, RequestBvns
from nightscreen.schemas.settings import read_settings
from nightscreen.steps.bvn.closing import close_confirm, close_request, quote_confirm, quote_request
from nightscreen.steps.bvn.confirming import open_confirm, send_again
from nightscreen.steps.bvn.requesting import ask_again, open_request
from nightscreen.tasks import bvn_consent as stations
from nightscreen.tasks.api_runs import ended, make_calls, named, opened_errand
from nightscreen.tasks.error_boundary import sanitize_errors
from nightscreen.tasks.logs import set_up_logs
from nightscreen.tasks.progress import show_progress

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from nightscreen.schemas.api_runs import ApiRunParameters
    from nightscreen.schemas.settings import Settings
    from nightscreen.steps.run import Run
    from nightscreen.tasks.open_run import OpenApiRun

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
        async with _opened(parameters, open_request, word=REQUESTS) as run:
            await stations.take_in_customers(run)
            await stations.plan_requests(run)
            if parameters.quote_only:
                return await asyncio.to_thread(quote_request, run.run, run.work)
            async with show_progress(run, REQUESTS):
                await make_calls(
                    run,
                    partial(stations.send_requests, run),
                    again=partial(ask_again, run.run, run.work),
                    close=_close_request,
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
        async with _opened(parameters, open_confirm, word=CONFIRMATIONS) as run:
            await stations.take_in_passwords(run)
            if parameters.quote_only:
                return await asyncio.to_thread(quote_confirm, run.run, run.work)
            async with show_progress(run, CONFIRMATIONS):
                await make_calls(
                    run,
                    partial(stations.send_passwords, run),
                    again=partial(send_again, run.run, run.work),
                    close=_close_confirm,
                )
            report = await stations.report_confirmations(run)
        return await ended(run, report)


@asynccontextmanager
async def _opened(
    parameters: P, open_run: Callable[[P, Settings], tuple[Run, Any]], *, word: str
) -> AsyncIterator[OpenApiRun]:
    """Open a run and what its stations share; a run that is only quoted leaves nothing."""
    settings = read_settings()
    set_up_logs(settings.log_format)
    shared: list[Any] = []

    def opening() -> Run:
        run, work = open_run(parameters, settings)
        shared.append(work)
        return run

    async with opened_errand(parameters, opening, word=word) as run:
        run.work = shared.pop()
        try:
            yield run
        finally:
            run.work = None


def _close_request(run: OpenApiRun) -> None:
    close_request(run.run, run.work)


def _close_confirm(run: OpenApiRun) -> None:
    close_confirm(run.run, run.work)
