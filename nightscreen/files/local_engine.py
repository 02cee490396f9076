"""Which Prefect server runs for a HOME on this machine: `nightscreen up` writes it, others read it.

A lock that dies with its process says whether the note is true. The server's login is in a private
file beside it. Nothing is started here.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from nightscreen.files.private_files import FileLock, make_private_folder, write_unsynced
from nightscreen.schemas.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NOTE, _LOCK = "up.json", "up.lock"
LOGIN_FILE = "engine.login"
"""As Prefect's own settings and its pages take it, user and password divided by a colon."""


class RunningEngine(NamedTuple):
    """A server of ours: its address, and the login that is for this address alone."""

    url: str
    login: str


@contextmanager
def announcing(home: Path) -> Iterator[Callable[[str, str], None]]:
    """Hold a HOME's place for one `up`; yield what saves its server's address and login.

    The login is empty where the server is not ours.

    Raises:
        UsageError: another process holds it.
    """
    make_private_folder(home)
    lock = FileLock.take(home / _LOCK)
    if lock is None:
        raise UsageError(
            f"nightscreen up runs for {home} already (process {_noted(home).get('pid')}); "
            "end it first, or set NIGHTSCREEN_HOME to another folder"
        )

    def save(url: str, login: str) -> None:
        (home / LOGIN_FILE).unlink(missing_ok=True)
        if login:
            write_unsynced(home / LOGIN_FILE, login.encode())
        note = {"pid": os.getpid(), "prefect_api_url": url}
        write_unsynced(home / NOTE, json.dumps(note).encode())

    try:
        save("", "")
        yield save
    finally:
        save("", "")
        lock.release()


def running_engine(home: Path) -> RunningEngine | None:
    """Return the server that an `up` of this HOME uses now; None: none does."""
    url, login = _noted(home).get("prefect_api_url"), home / LOGIN_FILE
    if not url:
        return None
    lock = FileLock.take(home / _LOCK, shared=True)  # several commands may ask at once
    if lock is not None:  # nobody holds it: the note is of one that is gone
        lock.release()
        return None
    with suppress(OSError):  # it is written anew just now
        return RunningEngine(url, login.read_text("utf-8") if login.exists() else "")
    return None


def _noted(home: Path) -> dict[str, Any]:
    """Return what the last `up` wrote down; nothing where that cannot be read."""
    try:
        note = json.loads((home / NOTE).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}
