"""The journal as commands open it: to look into it, or to begin one."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from nightscreen.cli.env_settings import settings_of_command
from nightscreen.schemas.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nightscreen.config.settings import Settings
    from nightscreen.journal import Journal


@contextmanager
def opened_journal() -> Iterator[Journal]:
    """Open the journal of the settings.

    Raises:
        InputError: there is none yet.
    """
    from nightscreen.journal.opening import journal_exists

    settings = settings_of_command()
    if not journal_exists(settings.home, settings.journal_url):
        raise InputError(
            f"there is no journal under {settings.home} yet; it is made by the first run, or set "
            "NIGHTSCREEN_HOME to where it is"
        )
    with made_journal(settings) as journal:
        yield journal


@contextmanager
def made_journal(settings: Settings, *, busy_timeout_s: float | None = None) -> Iterator[Journal]:
    """Open the journal of the settings; it is made where there is none yet."""
    from nightscreen.journal import journal_of
    from nightscreen.journal.engine import BUSY_TIMEOUT_S

    timeout_s = BUSY_TIMEOUT_S if busy_timeout_s is None else busy_timeout_s
    with journal_of(settings, busy_timeout_s=timeout_s) as journal:
        yield journal
