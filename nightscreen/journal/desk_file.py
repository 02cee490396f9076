"""The desk's own file, from outside: its path, and its copy in a backup of the journal.

The desk itself writes it (`desk/accounts.py`).
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nightscreen.schemas.errors import JournalError

if TYPE_CHECKING:
    from nightscreen.journal.runs import RunRecord

DESK_FILE: Final = "desk.sqlite3"
UPLOADS: Final = "desk"
"""Folder of HOME for sealed uploads."""
_SIGNED_IN = ("sessions", "links", "failures", "devices")


def copy_desk(source: Path, target: Path) -> None:
    """Copy the desk's file from one folder to another, unless that has one; nobody stays signed in.

    Files uploaded to the desk are not copied: they are deleted within days anyway.
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
            tables = {name for (name,) in new.execute("SELECT name FROM sqlite_master").fetchall()}
            for table in tables & set(_SIGNED_IN):
                new.execute(f"DELETE FROM {table}")  # noqa: S608 - names of ours
            new.commit()
    except sqlite3.Error as error:
        raise JournalError(f"{source / DESK_FILE} cannot be copied: {error}") from None


def has_users(home: Path) -> bool:
    """Tell whether anybody was made a user of a desk over this HOME."""
    file = home / DESK_FILE
    if not file.exists():
        return False
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as desk:
            return desk.execute("SELECT 1 FROM users LIMIT 1").fetchone() is not None
    except sqlite3.Error as error:
        raise JournalError(f"{file} cannot be read: {error}") from None


def upload_of(home: Path, run: RunRecord) -> str:
    """Return the id of the upload that a run screens; empty where its file came another way."""
    path = Path(run.parameters.get("input") or "").resolve()
    return path.stem if path.parent == (home / UPLOADS).resolve() else ""
