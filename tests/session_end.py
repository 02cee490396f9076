"""Ends whatever a session of tests has started, once the session is over, in whatever way.

This file runs by its path, with the standard library alone. It waits for a lock that the session's
first process holds; the system frees the lock after `kill -9` too. Then every process that has the
session's folder in its environment is ended, and the folder is removed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

FOLDER = "PYTEST_SESSION_FOLDER"
"""Environment variable that every process of a session inherits: the session's folder."""
LOCK = "session.lock"
_PATIENCE_S = 5.0
"""A server shuts down within a second or two; what has not ended by then is killed."""


def members(folder: Path) -> set[int]:
    """Return the processes of a session, those of sessions inside it included.

    A process is known by the environment it began with, so that it is found also where it is in a
    session of its own or has lost its parent.
    """
    mark = os.fsencode(f"{FOLDER}={folder}")
    found = set()
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal() or int(process.name) == os.getpid():
            continue
        with suppress(OSError):
            words = (process / "environ").read_bytes().split(b"\0")
            if any(word == mark or word.startswith(mark + b"/") for word in words):
                found.add(int(process.name))
    return found


def end(folder: Path) -> None:
    """End every process of a session: in good order, and those that do not heed by force."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        limit = time.monotonic() + _PATIENCE_S
        asked: set[int] = set()
        while (left := members(folder)) and time.monotonic() < limit:
            for process in left - asked:
                with suppress(ProcessLookupError):
                    os.kill(process, number)
            asked |= left
            time.sleep(0.05)


def main(folder: Path) -> None:
    """Wait for the end of a session's first process, then end what is left of the session."""
    with (folder / LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        end(folder)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
