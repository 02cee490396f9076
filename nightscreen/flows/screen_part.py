"""Ask a part of a run's lookups, on whatever machine a worker takes it up.

Started by `screen_batch` where it has several workers; not by hand.
"""

from __future__ import annotations

import asyncio

from nightscreen.calling.worker import ask_shards
from nightscreen.calling.worker_stats import numbers_of
from nightscreen.tasks.checks import BY_CHECK
from nightscreen.tasks.error_boundary import sanitize_errors
from nightscreen.tasks.own_flow import flow
from nightscreen.tasks.workers import part_opened


@flow(name="screen-part", persist_result=False, validate_parameters=True)
async def screen_part(run_id: str, part: int) -> dict[str, int]:
    """Take shards of a run and ask them, until it has no more; return lookups done, by check.

    Args:
        run_id: the run, begun by another process.
        part: which of its parts this is, from 1.

    Raises:
        SettingsError: this machine lacks the service's address or key.
        JournalError: the journal of this machine does not know the run.
    """
    with sanitize_errors():
        async with part_opened(run_id, part) as opened:
            if opened is None:
                return {}

            part_, run = opened

            async def ask(check: str, name: str) -> None:
                await BY_CHECK[check](run, name)

            async with asyncio.TaskGroup() as group:
                for check in run.run.wanted.checks:
                    group.create_task(ask_shards(part_, check, ask))
            checks = numbers_of(run.control)["checks"]
            return {name: counts["attempts"] for name, counts in checks.items()}
