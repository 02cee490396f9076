"""Pull what customers consented to: transactions, or linked accounts with their balances."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from prefect.client.schemas.objects import State

from nightscreen.operations.transactions.report import close_pull
from nightscreen.operations.transactions.sync import (
    begin_pull,
    open_pull_run,
    pull_again,
    pull_shard,
)
from nightscreen.schemas.pulls import PullAccounts, PullTransactions
from nightscreen.tasks.error_boundary import sanitize_errors
from nightscreen.tasks.open_run import call, ended, in_thread, make_calls, named, opened
from nightscreen.tasks.own_flow import flow
from nightscreen.tasks.stations import carry_out

if TYPE_CHECKING:
    from nightscreen.tasks.run_in_engine import OpenApiRun

SHARDS_AT_ONCE = 3
"""Shards in flight at a time, so that the window never runs dry between two."""

TRANSACTIONS, ACCOUNTS = "transactions", "accounts"
"""Name the flows' runs."""


@flow(
    name="pull-transactions",
    flow_run_name=named(TRANSACTIONS),
    persist_result=False,
    validate_parameters=True,
)
async def pull_transactions(parameters: PullTransactions) -> dict[str, Any] | State[Any]:
    """Pull the transactions of every live grant and return the report.

    Raises:
        UsageError: parameters or settings are wrong; nothing was asked.
        JournalError: the journal cannot be used.
    """
    return await _pull(parameters, TRANSACTIONS)


@flow(
    name="pull-accounts",
    flow_run_name=named(ACCOUNTS),
    persist_result=False,
    validate_parameters=True,
)
async def pull_accounts(parameters: PullAccounts) -> dict[str, Any] | State[Any]:
    """Pull the linked accounts of every live grant, profiles where granted; return the report.

    Raises:
        UsageError: parameters or settings are wrong; nothing was asked.
        JournalError: the journal cannot be used.
    """
    return await _pull(parameters, ACCOUNTS)


async def _pull(parameters: PullTransactions, word: str) -> dict[str, Any] | State[Any]:
    with sanitize_errors():
        opening = partial(in_thread, open_pull_run, parameters)
        async with opened(parameters, opening, word=word) as run:
            run.work = await asyncio.to_thread(begin_pull, run.run)
            await make_calls(
                run,
                partial(call, run, _pull_all),
                again=partial(pull_again, run.work),
                close=partial(close_pull, run.work),
            )
            report = await carry_out(run, "report pull", close_pull, run.work)
        return await ended(run, report)


async def _pull_all(run: OpenApiRun) -> None:
    """Pull every shard, a few at a time."""
    slots = asyncio.Semaphore(SHARDS_AT_ONCE)
    async with asyncio.TaskGroup() as group:
        for shard in range(len(run.work.due)):
            group.create_task(_pull_one(run, shard, slots))


async def _pull_one(run: OpenApiRun, shard: int, slots: asyncio.Semaphore) -> None:
    async with slots:
        given = (run.work, run.calls, shard)
        await carry_out(run, f"pull customers {shard}", pull_shard, *given, is_retried=True)
