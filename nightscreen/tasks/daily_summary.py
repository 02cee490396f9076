"""The task of the morning summary: it reads the journal and emits one event.

What the summary says is made in `ops.summary`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from nightscreen.config.settings import read_settings
from nightscreen.journal.read_only import look_into
from nightscreen.ops.summary import night_of
from nightscreen.schemas.clock import system_clock
from nightscreen.schemas.errors import JournalError
from nightscreen.tasks.error_boundary import guard_task
from nightscreen.tasks.events import tell_morning

if TYPE_CHECKING:
    from nightscreen.config.settings import Settings


@task(name="tell the night", cache_policy=NO_CACHE, persist_result=False)
@guard_task
async def tell_the_night() -> dict[str, Any]:
    """Emit the morning summary; return its numbers."""
    numbers = await asyncio.to_thread(_night, read_settings())
    tell_morning(numbers)
    return numbers


def _night(settings: Settings) -> dict[str, Any]:
    key = settings.data_key.get_secret_value()
    look = look_into(settings.home, url=settings.journal_url, data_key=key)
    if look is None:
        raise JournalError(
            f"there is no journal under {settings.home}: set NIGHTSCREEN_HOME where the worker "
            "runs to where runs keep their state"
        )
    with look:
        return night_of(look, system_clock())
