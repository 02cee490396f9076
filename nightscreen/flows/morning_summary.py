"""The morning summary: one event a day that says what the night brought."""

from __future__ import annotations

from typing import Any

from nightscreen.tasks.daily_summary import tell_the_night
from nightscreen.tasks.error_boundary import sanitize_errors
from nightscreen.tasks.own_flow import flow


@flow(name="morning-summary", flow_run_name="morning-summary", persist_result=False)
async def morning_summary() -> dict[str, Any]:
    """Return what the night brought, once a day.

    Raises:
        JournalError: the journal cannot be read.
    """
    with sanitize_errors():
        return await tell_the_night()
