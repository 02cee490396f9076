"""A pull below the flow, start to end, as a program: tests run several of them, and kill some.

It takes a JSON document of settings and options on its command line and writes the report to
stdout. Expectations do not belong here.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from nightscreen.config.settings import read_settings
from nightscreen.operations.person_run import PersonRun, PersonSteps, run_people
from nightscreen.operations.transactions.pull import TransactionPull
from nightscreen.schemas.pulls import PullTransactions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class NamedFirst(PersonSteps):
    """Writes the run's id to stderr as soon as it is open."""

    @asynccontextmanager
    async def watching(self, run: PersonRun[Any, Any]) -> AsyncIterator[None]:
        """Name the run."""
        sys.stderr.write(f"{run.run.run_id}\n")
        sys.stderr.flush()
        yield


def drive(settings: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Pull and return the report."""
    given = PullTransactions(**options)
    pulling = run_people(TransactionPull, given, read_settings(**settings), steps=NamedFirst())
    return asyncio.run(pulling)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    json.dump(drive(given["settings"], given["options"]), sys.stdout)
