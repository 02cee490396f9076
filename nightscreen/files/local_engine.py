"""The Prefect server of a HOME on this machine: `nightscreen up` saves it, other commands read it.

A lock that ends with its process shows whether the note is current. The server's login is in a
separate private file.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from nightscreen.files.private_files import FileLock, make_private_folder, write_private
from nightscreen.schemas.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NOTE, _LOCK = "up.json", "up.lock"
LOGIN_FILE = "engine.login"
"""Holds user and password separated by a colon, as Prefect's settings and pages take them."""


class RunningEngine(NamedTuple):
    """A server: its address, and its login, which is only for this address."""

    url: str
    login: str


@contextmanager
def announcing(home: Path) -> Iterator[Callable[[str, str], None]]:
    """Lock a HOME for one `up`; yield a function that saves its server's address and login.

    The login is empty for a server that `up` did not start.

    Raises:
        UsageError: another `up` runs for this HOME.
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
            write_private(home / LOGIN_FILE, login.encode(), lasting=False)
        note = {"pid": os.getpid(), "prefect_api_url": url}
        write_private(home / NOTE, json.dumps(note).encode(), lasting=False)

    try:
        save("", "")
        yield save
    finally:
        save("", "")
        lock.release()


def running_engine(home: Path) -> RunningEngine | None:
    """Return the server that a running `up` of this HOME uses; None if there is none."""
    url, login = _noted(home).get("prefect_api_url"), home / LOGIN_FILE
    if not url:
        return None
    lock = FileLock.take(home / _LOCK, shared=True)  # several commands may ask at once
    if lock is not None:  # no `up` holds it: the note is out of date
        lock.release()
        return None
    with suppress(OSError):  # it is being rewritten
        return RunningEngine(url, login.read_text("utf-8") if login.exists() else "")
    return None


def _noted(home: Path) -> dict[str, Any]:
    """Return the note of the last `up`; empty if it cannot be read."""
    try:
        note = json.loads((home / NOTE).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}
