"""One worker of a run, on any machine of a work pool; `screen_batch` starts it, nobody by hand."""

from __future__ import annotations

from nightscreen.tasks.engine_run import ask_as_worker
from nightscreen.tasks.own_flow import flow


@flow(name="screen-part")
async def screen_part(run_id: str, part: int) -> dict[str, int]:  # noqa: ARG001 - names the flow run
    """Claim lookups of a run and ask them until none are left; return attempts made, by check.

    Args:
        run_id: the run, begun by another process.
        part: the number of this worker, from 1.

    Raises:
        SettingsError: this machine lacks the service's address or key.
        JournalError: this machine's journal does not know the run.
    """
    return await ask_as_worker(run_id)
