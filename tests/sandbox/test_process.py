"""The program: its one line, its end, its refusals."""

from __future__ import annotations

import signal
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from nightscreen.sandbox.process import SandboxProcess


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end."""
    return subprocess.run(
        [sys.executable, "-m", "nightscreen.sandbox", *arguments],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


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


def test_port_in_use_and_wrong_balance_are_bad_usage() -> None:
    """What cannot be started ends with status 2 and one clear line."""
    with SandboxProcess() as process:
        port = urlsplit(process.url).port
        assert port is not None
        busy = run("--port", str(port))
    wrong = run("--port", "0", "--balance", "much")
    assert (busy.returncode, wrong.returncode) == (2, 2)
    assert "in use" in busy.stderr
    assert "naira" in wrong.stderr


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
