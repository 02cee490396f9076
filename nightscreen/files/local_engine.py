"""Which Prefect server runs for a HOME on this machine: `nightscreen up` writes it, others read it.

A lock that dies with its process says whether the note is true. The server's login is in a private
file beside it. Nothing is started here.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from nightscreen.files.private_files import make_private_folder, write_passing
from nightscreen.schemas.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NOTE = "up.json"
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
    file = os.fdopen(os.open(home / NOTE, os.O_RDWR | os.O_CREAT, 0o600), "r+", encoding="utf-8")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"nightscreen up runs for {home} already (process {_held(file.read(), 'pid')}); "
                "end it first, or set NIGHTSCREEN_HOME to another folder"
            ) from None

        def save(url: str, login: str) -> None:
            (home / LOGIN_FILE).unlink(missing_ok=True)
            if login:
                write_passing(home / LOGIN_FILE, login.encode())
            file.seek(0)
            file.truncate()
            file.write(json.dumps({"pid": os.getpid(), "prefect_api_url": url}))
            file.flush()

        save("", "")
        try:
            yield save
        finally:
            save("", "")


def running_engine(home: Path) -> RunningEngine | None:
    """Return the server that an `up` of this HOME uses now; None: none does."""
    try:
        file = (home / NOTE).open("r+", encoding="utf-8")
    except OSError:
        return None
    with file, suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None  # nobody holds it: the note is of one that is gone
    with suppress(OSError):
        if url := _held((home / NOTE).read_text("utf-8"), "prefect_api_url"):
            login = home / LOGIN_FILE
            return RunningEngine(url, login.read_text("utf-8") if login.exists() else "")
    return None


def _held(text: str, name: str) -> str:
    try:
        note = json.loads(text)
    except ValueError:
        return ""
    return str(note.get(name) or "") if isinstance(note, dict) else ""
