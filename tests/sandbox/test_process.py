"""The program: its one line, and its end."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_says_where_it_listens_and_stops_cleanly(name: str) -> None:
    """One line on stdout, nothing on stderr, exit status 0 at either signal."""
    with subprocess.Popen(
        [sys.executable, "-m", "nightscreen.sandbox", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        assert line.startswith("sandbox listening on http://127.0.0.1:")
        child.send_signal(getattr(signal, name))
        rest, errors = child.communicate(timeout=180)
    assert (rest, errors, child.returncode) == ("", "", 0)


def test_sandbox_ends_with_its_parent() -> None:
    """When the parent's end of stdin closes, the sandbox stops by itself."""
    with subprocess.Popen(
        [sys.executable, "-m", "nightscreen.sandbox", "--port", "0", "--stop-with-stdin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        child.stdout.readline()
        child.stdin.close()
        assert child.wait(timeout=180) == 0
