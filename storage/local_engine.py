"""Which Prefect server runs for a HOME on this machine: `nightscreen up` writes it, others read it.

A lock that dies with its process says whether the note is true. Nothing is started here.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from nightscreen.schemas.errors import UsageError
from nightscreen.storage.files import make_private_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NOTE = "up.json"


@contextmanager
def announcing(home: Path) -> Iterator[Callable[[str], None]]:
    """Hold a HOME's place for one `up`, and yield the function that saves its server's address.

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

        def save_address(url: str) -> None:
            file.seek(0)
            file.truncate()
            file.write(json.dumps({"pid": os.getpid(), "prefect_api_url": url}))
            file.flush()

        save_address("")
        try:
            yield save_address
        finally:
            save_address("")


def running_engine(home: Path) -> str | None:
    """Return the address of the server that an `up` of this HOME runs now; None: none does."""
    try:
        file = (home / NOTE).open("r+", encoding="utf-8")
    except OSError:
        return None
    with file, suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None  # nobody holds it: the note is of one that is gone
    with suppress(OSError):
        return _held((home / NOTE).read_text("utf-8"), "prefect_api_url") or None
    return None


def _held(text: str, name: str) -> str:
    try:
        note = json.loads(text)
    except ValueError:
        return ""
    return str(note.get(name) or "") if isinstance(note, dict) else ""
