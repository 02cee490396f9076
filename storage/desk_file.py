"""The desk's own file, from outside: copied with the journal, old entries of its audit removed.

The desk itself writes it (`desk/accounts.py`).
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nightscreen.schemas.errors import JournalBusyError, JournalError

if TYPE_CHECKING:
    from nightscreen.storage.journal.runs import RunRecord

DESK_FILE: Final = "desk.sqlite3"
UPLOADS: Final = "desk"
"""Folder of HOME where uploads lie sealed."""
_PATIENCE_S = 30
_SIGNED_IN = ("sessions", "links", "failures")


def copy_desk(source: Path, target: Path) -> None:
    """Copy the desk's file from one folder to another, unless that has one; nobody stays signed in.

    Files that were brought to the desk are not copied: they are gone within days anyway.
    """
    if not (source / DESK_FILE).exists() or (target / DESK_FILE).exists():
        return
    file = target / DESK_FILE
    file.touch(mode=0o600)
    try:
        with (
            closing(sqlite3.connect(source / DESK_FILE)) as old,
            closing(sqlite3.connect(file)) as new,
        ):
            old.backup(new)
            new.execute("PRAGMA journal_mode=DELETE")
            there = {name for (name,) in new.execute("SELECT name FROM sqlite_master").fetchall()}
            for table in there & set(_SIGNED_IN):
                new.execute(f"DELETE FROM {table}")  # noqa: S608 - names of ours
            new.commit()
    except sqlite3.Error as error:
        raise JournalError(f"{source / DESK_FILE} cannot be copied: {error}") from None


def upload_of(home: Path, run: RunRecord) -> str:
    """Return the id of the upload that a run screens; empty where its file came another way.

    The run may know the file by a link, where HOME or the file's name looks like an identifier.
    """
    path = Path(run.parameters.get("input") or "").resolve()
    return path.stem if path.parent == (home / UPLOADS).resolve() else ""


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
