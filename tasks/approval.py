"""Approval of spending: asked on the terminal where someone sits there, else in the engine's UI.

Whether a run needs it is decided by `steps.screening_run.needs_approval`; nobody answering in time
is a stop like any other.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from prefect import get_run_logger, pause_flow_run
from prefect.exceptions import FlowPauseTimeout
from prefect.input import RunInput
from prefect.settings import PREFECT_API_URL
from pydantic import Field

from nightscreen.steps.control import StopReason
from nightscreen.steps.quoting import quote_document
from nightscreen.steps.report.summary import quote_tables
from nightscreen.steps.screening_run import needs_approval
from nightscreen.tasks import run_registry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from nightscreen.steps.screening_run import ScreeningRun

POLL_S = 5


class SpendingApproval(RunInput):
    """The form a person fills in to let a run spend."""

    approve: bool = Field(
        default=False,
        title="Approve the spending",
        description="Switched on, the run goes on and spends. Left off, it ends here and asks "
        "nothing; it can be resumed.",
    )


async def approved(run_id: str) -> bool:
    """Return whether a run may spend; where it may not, it is stopped."""
    run = run_registry.get_run(run_id)
    reason = await asyncio.to_thread(needs_approval, run.line)
    if reason is None:
        return True
    if run_registry.asked_here is not None:
        given = await asyncio.to_thread(run_registry.asked_here, reason)
    else:
        given = await _in_the_engine(run.line, reason)
    if not given:
        run.line.control.stop_run(StopReason.APPROVAL)
    return given


async def _in_the_engine(line: ScreeningRun, reason: str) -> bool:
    """Pause the flow run until someone resumes it in the UI, or the time is up."""
    if not PREFECT_API_URL.value():
        return False  # a temporary server: nobody can reach its UI
    get_run_logger().info("waits for approval: press Resume, above, and decide")
    tables = quote_tables(quote_document(line))
    form = SpendingApproval.with_initial_data(
        description=f"Run {line.run_id} waits for approval: {reason}.\n\n{tables}"
    )
    try:
        paused = pause_flow_run(
            wait_for_input=form,
            timeout=int(line.settings.approval_timeout.total_seconds()),
            poll_interval=POLL_S,
            key="spending",
        )
        answer = await cast("Awaitable[SpendingApproval]", paused)
    except FlowPauseTimeout:
        return False
    return answer.approve


def ask_here(asker: Callable[[str], bool] | None) -> None:
    """Have approvals of this process asked by a function, such as a prompt on the terminal."""
    run_registry.asked_here = asker
