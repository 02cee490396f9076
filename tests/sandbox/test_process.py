"""The program: its one line, and its end."""

from __future__ import annotations

import signal
import subprocess
import sys


def test_says_where_it_listens_and_stops_cleanly() -> None:
    """One line on stdout, nothing on stderr, exit status 0 at either signal.

    It also stops by itself when its parent's end of stdin closes.
    """
    for stop in (signal.SIGTERM, signal.SIGINT, None):
        more = [] if stop else ["--stop-with-stdin"]
        with subprocess.Popen(
            [sys.executable, "-m", "nightscreen.sandbox", "--port", "0", *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stdout is not None
            line = child.stdout.readline()
            assert line.startswith("sandbox listening on http://127.0.0.1:"), stop
            if stop:
                child.send_signal(stop)
            rest, errors = child.communicate(timeout=180)  # closes its stdin
        assert (rest, errors, child.returncode) == ("", "", 0), stop
