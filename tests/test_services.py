"""The processes of a session of tests share services, and none outlives the session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import session_end
from tests.session_end import members

ROOT = Path(__file__).resolve().parents[1]
PATIENCE_S = 60.0
INNER = """
import json, os, subprocess, sys, time
from pathlib import Path
import pytest
from tests import session_end

@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.postgres
def test_inner(number, postgresql, tmp_path):
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
    subprocess.Popen(sleeper, start_new_session=True, cwd="/")
    report = {"url": postgresql, "folder": os.environ[session_end.FOLDER]}
    (Path(os.environ["REPORTS"]) / f"{number}-{os.getpid()}").write_text(json.dumps(report))
    time.sleep(600)
"""


def start_session(folder: Path) -> subprocess.Popen[bytes]:
    """Start a session of two processes, which use the database and start child processes."""
    inner = folder / "inner"
    inner.mkdir()
    for number in (1, 2):  # one file for each process
        (inner / f"test_inner_{number}.py").write_text(INNER.replace("[1, 2]", f"[{number}]"))
    arguments = ["-q", "-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider", "-c", os.devnull]
    plugins = ["-p", "tests.conftest", "-W", "ignore", "--rootdir", str(inner)]
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *arguments, *plugins, str(inner)],
        cwd=ROOT,
        env={**os.environ, "REPORTS": str(folder)},
        stdout=(folder / "output.txt").open("wb"),
        stderr=subprocess.STDOUT,
    )


def reports(folder: Path, session: subprocess.Popen[bytes]) -> Iterator[dict[str, str]]:
    limit = time.monotonic() + 10 * PATIENCE_S
    while len(files := [each for each in folder.glob("?-*") if each.stat().st_size]) < 2:
        assert session.poll() is None, (folder / "output.txt").read_text()
        assert time.monotonic() < limit
        time.sleep(0.1)
    for each in files:
        yield json.loads(each.read_bytes())


@pytest.mark.postgres
def test_no_process_of_a_session_outlives_its_kill(tmp_path: Path) -> None:
    """Its processes share one database, and all have ended."""
    session = start_session(tmp_path)
    first, second = reports(tmp_path, session)
    assert first == second
    folder = Path(first["folder"])
    assert folder.parent == Path(os.environ[session_end.FOLDER])
    assert members(folder)
    session.kill()
    session.wait()
    limit = time.monotonic() + PATIENCE_S
    while members(folder) or folder.exists():
        assert time.monotonic() < limit
        time.sleep(0.1)
