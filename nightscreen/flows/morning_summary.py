"""The morning summary: one event a day that says what the night brought."""

from __future__ import annotations

import asyncio
from typing import Any

from nightscreen.config.settings import read_settings
from nightscreen.ops.summary import last_night
from nightscreen.tasks import events
from nightscreen.tasks.error_boundary import sanitize_errors
from nightscreen.tasks.own_flow import flow


@flow(name="morning-summary", flow_run_name="morning-summary")
async def morning_summary() -> dict[str, Any]:
    """Send the morning summary as an event; return its numbers.

    Raises:
        JournalError: the journal cannot be read, or there is none.
    """
    with sanitize_errors():
        numbers = await asyncio.to_thread(last_night, read_settings())
        events.morning(numbers)
        return numbers
