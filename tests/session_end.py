"""Ends everything that a session of tests started, however the session ends.

This file is run by its path and needs only the standard library. It waits for a lock of the
session's first process, which the system releases after `kill -9` too. Then it ends every process
with the session's folder in its environment, and removes the folder.
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
"""A server shuts down within a second or two; after this time processes are killed."""


def members(folder: Path) -> set[int]:
    """Return the ids of a session's processes, including those of sessions inside it.

    A process is recognised by its initial environment, even if it has its own process session or
    has lost its parent.
    """
    mark = os.fsencode(f"{FOLDER}={folder}")
    found = set()
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal() or int(process.name) == os.getpid():
            continue
        with suppress(OSError):
            variables = (process / "environ").read_bytes().split(b"\0")
            if any(each == mark or each.startswith(mark + b"/") for each in variables):
                found.add(int(process.name))
    return found


def end(folder: Path) -> None:
    """End every process of a session: first with SIGTERM, then with SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        limit = time.monotonic() + _PATIENCE_S
        signalled: set[int] = set()
        while (remaining := members(folder)) and time.monotonic() < limit:
            for process in remaining - signalled:
                with suppress(ProcessLookupError):
                    os.kill(process, number)
            signalled |= remaining
            time.sleep(0.05)


def main(folder: Path) -> None:
    """Wait for the end of a session's first process, then end the session's other processes."""
    with (folder / LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        end(folder)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
