"""Ends the processes that one has started, once it is gone in whatever way, `kill -9` included.

`begin` starts a small process beside the present one, and marks the environment: every process
started from then on has the mark, children of children included, in any process group. The small
one waits until its standard input ends, which the system sees to when this process ends, and then
ends every process with the mark. It runs this file by its path, with the standard library alone.
Without /proc (other systems than Linux) only the process group is ended.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

MARK = "STARTED_BY_NIGHTSCREEN"
"""Not one of the settings' names, which the demo removes from the environment."""
_PROCESSES = Path("/proc")
_PATIENCE_S = 20.0
"""A run's calls in flight settle within this; its journal survives the end in any case."""
_LOOK_S = 0.1

_reapers: list[subprocess.Popen[bytes]] = []


def begin() -> int:
    """Have everything that is started from now on end with this process.

    Returns:
        The process group to start children in, so that a Ctrl-C at the terminal does not reach
        them.
    """
    mark = secrets.token_hex(8)
    environment = {name: value for name, value in os.environ.items() if name != MARK}
    reaper = subprocess.Popen(  # noqa: S603 - this very file
        [sys.executable, "-I", "-S", __file__, mark],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        process_group=0,
    )
    _reapers.append(reaper)  # its pipe stays open as long as this process lives
    os.environ[MARK] = mark
    return reaper.pid


def marked(mark: str) -> set[int]:
    """Return the processes with a mark in the environment they started with."""
    wanted = os.fsencode(f"{MARK}={mark}")
    found = set()
    for process in _PROCESSES.iterdir() if _PROCESSES.is_dir() else ():
        if process.name.isdecimal() and int(process.name) != os.getpid():
            with suppress(OSError):
                if wanted in (process / "environ").read_bytes().split(b"\0"):
                    found.add(int(process.name))
    return found


def end_marked(mark: str, patience_s: float = _PATIENCE_S) -> None:
    """End the processes with a mark: by SIGTERM first, then by force."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        until = time.monotonic() + patience_s
        asked: set[int] = set()
        while (left := marked(mark)) and time.monotonic() < until:
            for process in left - asked:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(process, number)
            asked |= left
            time.sleep(_LOOK_S)


def _main(mark: str) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    if _PROCESSES.is_dir():
        end_marked(mark)
    else:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(os.getpgid(0), signal.SIGKILL)


if __name__ == "__main__":
    _main(sys.argv[1])
