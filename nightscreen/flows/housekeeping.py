"""Daily flows besides the runs: back up the journal, purge, send the morning summary.

They make no calls and cost nothing. `journal`, `privacy` and `ops` do the work.
"""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from nightscreen.config.settings import read_settings
from nightscreen.journal.copying import back_up_dated
from nightscreen.ops.status import last_night
from nightscreen.privacy.purging import purge_due_now
from nightscreen.tasks.monitoring import paging_false_starts, send_morning
from nightscreen.tasks.own_flow import flow


class BackUp(BaseModel):
    """Parameters of a backup of the journal."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    folder: str = Field(
        "backups",
        title="Folder",
        description="Each copy gets a folder named by its day there, on the worker's machine.",
        min_length=1,
    )
    keep: int = Field(
        14, title="Copies to keep", description="Older ones are removed.", ge=1, le=1000
    )
    passphrase_file: str = Field(
        "",
        title="File of the passphrase",
        description="Its first line seals the data key into each copy. Empty: the copy holds no "
        "key, which must then be saved elsewhere.",
    )


@flow(name="back-up", flow_run_name="back-up")
async def back_up(parameters: BackUp) -> dict[str, Any]:
    """Copy the journal into a folder named by the day; none of it reaches the engine.

    Raises:
        JournalError: the journal cannot be read.
        OutputError: the folder cannot be written, or already holds a copy of today.
    """
    with paging_false_starts("back-up", ""):
        settings = read_settings()
        return await asyncio.to_thread(
            back_up_dated,
            settings,
            parameters.folder,
            keep=parameters.keep,
            passphrase_file=parameters.passphrase_file,
        )


@flow(name="purge", flow_run_name="purge")
async def purge() -> dict[str, Any]:
    """Delete what is older than its retention period; return what was deleted, in numbers.

    Raises:
        JournalError: the journal cannot be used.
        OutputError: a folder cannot be written.
    """
    with paging_false_starts("purge", ""):
        return await asyncio.to_thread(purge_due_now, read_settings())


@flow(name="morning-summary", flow_run_name="morning-summary")
async def morning_summary() -> dict[str, Any]:
    """Send the last night's numbers as one event; return them.

    Raises:
        JournalError: the journal cannot be read, or there is none.
    """
    numbers = await asyncio.to_thread(last_night, read_settings())
    send_morning(numbers)
    return numbers
