"""Ask lookups of a run, on whatever machine a work pool starts this.

Started by `screen_batch` where it has several workers; not by hand.
"""

from __future__ import annotations

from nightscreen.tasks.engine_run import ask_as_worker
from nightscreen.tasks.own_flow import flow


@flow(name="screen-part")
async def screen_part(run_id: str, part: int) -> dict[str, int]:  # noqa: ARG001 - names the flow run
    """Claim lookups of a run and ask them until it has no more; return attempts made, by check.

    Args:
        run_id: the run, begun by another process.
        part: which of its workers this is, from 1.

    Raises:
        SettingsError: this machine lacks the service's address or key.
        JournalError: the journal of this machine does not know the run.
    """
    return await ask_as_worker(run_id)
