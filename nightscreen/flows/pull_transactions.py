"""Pull what customers consented to: transactions, or linked accounts with their balances."""

from __future__ import annotations

from typing import Any

from prefect.client.schemas.objects import State

from nightscreen.operations.transactions.pull import AccountPull, TransactionPull
from nightscreen.schemas.pulls import PullTransactions
from nightscreen.tasks.engine_run import named, run_in_engine
from nightscreen.tasks.own_flow import flow


@flow(name="pull-transactions", flow_run_name=named(TransactionPull.name))
async def pull_transactions(parameters: PullTransactions) -> dict[str, Any] | State[Any]:
    """Pull the transactions of every live grant and return the report.

    Raises:
        UsageError: parameters or settings are wrong; nothing was asked.
        JournalError: the journal cannot be used.
    """
    return await run_in_engine(TransactionPull, parameters)


@flow(name="pull-accounts", flow_run_name=named(AccountPull.name))
async def pull_accounts(parameters: PullTransactions) -> dict[str, Any] | State[Any]:
    """Pull the linked accounts of every live grant, profiles where granted; return the report.

    Raises:
        UsageError: parameters or settings are wrong; nothing was asked.
        JournalError: the journal cannot be used.
    """
    return await run_in_engine(AccountPull, parameters)
