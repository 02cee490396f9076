"""Decisions by command: left to the desk where it has users, since they sign in there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nightscreen.journal.read_only import look_into
from nightscreen.schemas.errors import UsageError

if TYPE_CHECKING:
    from nightscreen.config.settings import Settings


def desk_has_users(settings: Settings) -> bool:
    """Tell whether anybody was made a user of the desk of a journal, if there is one."""
    look = look_into(settings.home, url=settings.journal_url)
    if look is None:
        return False
    with look:
        return look.has_users()


def require_no_desk(settings: Settings, page: str) -> None:
    """Refuse to decide by command where the desk has users.

    Args:
        settings: those of the command.
        page: the path of the desk's page where it is decided.

    Raises:
        UsageError: the desk has users.
    """
    if desk_has_users(settings):
        at = settings.desk_url.rstrip("/")
        raise UsageError(
            f"the desk has users, so one of them decides, signed in: open {at}{page} at the desk"
        )
