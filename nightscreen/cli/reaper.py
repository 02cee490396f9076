"""Ends the processes that one has started, once it is gone in whatever way, `kill -9` included.

`begin` starts a small process that leads a process group for what is started next. It waits until
its standard input ends, which the system sees to when the present process ends, and then ends the
group. It runs this file by its path, with the standard library alone.
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
"""A run's calls in flight settle within this; its journal survives the end in any case."""
_LOOK_S = 0.1  # how soon it is noticed that the last process has ended

_reapers: list[subprocess.Popen[bytes]] = []


def begin() -> int:
    """Have what is started in a process group from now on end with this process.

    Returns:
        The group to start children in; a Ctrl-C at the terminal does not reach them there.
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
    """Return whether anybody else is left in this process's group; where it cannot be seen, no."""
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
