"""End a process's children when it is gone, however it ended, `kill -9` included.

`begin` starts a small process that leads a process group for later children. It waits for the end
of its standard input, which the system closes when this process ends, and then ends the group. It
runs this file by its path, with the standard library only.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

_PATIENCE_S = 20.0
"""Enough for a run's calls in flight to settle; its journal survives a kill in any case."""
_LOOK_S = 0.1  # how often to look whether the last process has ended

_reapers: list[subprocess.Popen[bytes]] = []


def begin() -> int:
    """Return a process group to start children in; they end with this process.

    A Ctrl-C at the terminal does not reach them.
    """
    reaper = subprocess.Popen(  # noqa: S603 - this very file
        [sys.executable, "-I", "-S", __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )
    _reapers.append(reaper)  # its pipe stays open as long as this process lives
    return reaper.pid


def _others() -> bool:
    """Return whether other processes are left in this process's group; False without /proc."""
    own = os.getpgrp()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(ProcessLookupError):
            if int(process.name) != os.getpid() and os.getpgid(int(process.name)) == own:
                return True
    return False


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    os.killpg(0, signal.SIGTERM)
    until = time.monotonic() + _PATIENCE_S
    while _others() and time.monotonic() < until:
        time.sleep(_LOOK_S)
    os.killpg(0, signal.SIGKILL)
