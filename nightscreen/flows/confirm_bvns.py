"""BVN consent in two stages: ask customers for it, then send on the passwords they supplied."""

from __future__ import annotations

from typing import Any

from prefect.client.schemas.objects import State

from nightscreen.operations.bvn.confirmations import BvnConfirmations
from nightscreen.operations.bvn.requests import BvnRequests
from nightscreen.schemas.bvn import ConfirmBvns, RequestBvns
from nightscreen.tasks.engine_run import named, run_in_engine
from nightscreen.tasks.own_flow import flow


@flow(name="request-bvns", flow_run_name=named(BvnRequests.name))
async def request_bvns(parameters: RequestBvns) -> dict[str, Any] | State[Any]:
    """Have a one-time password sent to every customer of a file who was not asked before.

    Raises:
        UsageError: parameters, settings or input are wrong; nothing was sent.
        JournalError: the journal cannot be used.
    """
    return await run_in_engine(BvnRequests, parameters)


@flow(name="confirm-bvns", flow_run_name=named(BvnConfirmations.name))
async def confirm_bvns(parameters: ConfirmBvns) -> dict[str, Any] | State[Any]:
    """Send on the passwords that customers supplied; each confirmation is charged.

    Raises:
        UsageError: parameters, settings or input are wrong; nothing was sent.
        JournalError: the journal cannot be used.
    """
    return await run_in_engine(BvnConfirmations, parameters)
