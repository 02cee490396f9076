"""Old entries of the desk's audit, which lies in a file of its own; the desk itself writes it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Final

from nightscreen.schemas.errors import JournalBusyError

if TYPE_CHECKING:
    from pathlib import Path

DESK_FILE: Final = "desk.sqlite3"
_PATIENCE_S = 30


def audit_before(home: Path, instant: int) -> int:
    """Return how many entries of the desk's audit are older than an instant."""
    return _on_audit(home, "SELECT count(*) FROM audit WHERE at < ?", instant)


def forget_audit(home: Path, instant: int) -> int:
    """Remove entries of the desk's audit that are older than an instant; return how many.

    Raises:
        JournalBusyError: the desk keeps its file in use.
    """
    number = audit_before(home, instant)
    if number:
        _on_audit(home, "DELETE FROM audit WHERE at < ? RETURNING id", instant)
    return number


def _on_audit(home: Path, statement: str, instant: int) -> int:
    """Run one statement on the audit and return its first number; 0 where there is no desk."""
    file = home / DESK_FILE
    if not file.exists():
        return 0
    try:
        with closing(sqlite3.connect(file, timeout=_PATIENCE_S)) as connection, connection:
            connection.execute("PRAGMA secure_delete = ON")
            found = connection.execute(statement, (instant,)).fetchall()
            return int(found[0][0]) if found else 0
    except sqlite3.OperationalError:
        raise JournalBusyError("the desk's file is in use; purge again in a minute") from None
