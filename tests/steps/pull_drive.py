"""A pull below the flow, start to end, as a program: tests run several of them, and kill some.

It takes a JSON document of settings and options on its command line and writes the report to
stdout. Expectations do not belong here.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from nightscreen.calling.caller import open_caller
from nightscreen.config.settings import read_settings
from nightscreen.operations.transactions.report import close_pull
from nightscreen.operations.transactions.sync import (
    TransactionSync,
    begin_pull,
    open_pull_run,
    pull_shard,
)
from nightscreen.schemas.pulls import PullTransactions


async def ask(pull: TransactionSync) -> None:
    """Pull every shard at once."""
    session = open_caller(pull.run)
    try:
        await asyncio.gather(*(pull_shard(pull, session, n) for n in range(len(pull.due))))
    finally:
        await session.close()


def drive(settings: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Pull and return the report."""
    pull = begin_pull(open_pull_run(PullTransactions(**options), read_settings(**settings)))
    sys.stderr.write(f"{pull.run.run_id}\n")
    sys.stderr.flush()
    try:
        asyncio.run(ask(pull))
        return close_pull(pull)
    finally:
        pull.run.close()


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    json.dump(drive(given["settings"], given["options"]), sys.stdout)
