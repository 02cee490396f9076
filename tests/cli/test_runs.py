"""Whole runs from the command line: kills, interrupts, and what is listed."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from nightscreen.sandbox.batch import make_batch
from tests.cli.command import COMMAND, NOBODY_LISTENS, surroundings
from tests.services import EngineServer

pytestmark = [pytest.mark.engine, pytest.mark.long]

ROWS = 40


@pytest.fixture
def env(tmp_path: Path, engine_server: EngineServer) -> dict[str, str]:
    """Return an environment with a running engine, and a batch in the working directory."""
    make_batch(tmp_path / "batch.csv", rows=ROWS, seed=3, damage_pct=0)
    return surroundings(tmp_path, NIGHTSCREEN_API_KEY="sandbox-key", **engine_server.client)


def _has_loaded(process: Path, library: str) -> bool:
    return library in (process / "maps").read_text(encoding="utf-8", errors="replace")


def _has_a_server(process: Path) -> bool:
    """Return whether a server of a process's own has begun its database."""
    return (process / "cwd" / ".nightscreen" / "prefect" / "temporary" / "prefect.db").exists()


BEGINNINGS: dict[str, Callable[[Path], bool]] = {
    "reading the file": partial(_has_loaded, library="libarrow"),
    "starting the temporary server": _has_a_server,
}
"""Moments of a start, each by what can be seen of it from outside, however slow the machine is."""


@pytest.mark.parametrize("moment", BEGINNINGS)
def test_an_interrupt_before_anything_is_asked_ends_in_one_line(
    moment: str, tmp_path: Path, env: dict[str, str]
) -> None:
    own = {name: value for name, value in env.items() if name != "PREFECT_API_URL"}
    child = subprocess.Popen(
        [COMMAND, "screen", "batch.csv"],
        cwd=tmp_path,
        env={**own, "NIGHTSCREEN_BASE_URL": NOBODY_LISTENS},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not BEGINNINGS[moment](Path(f"/proc/{child.pid}")):
        assert child.poll() is None, child.communicate()
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=120)
    assert child.returncode == 3, err
    assert err.splitlines()[-1].startswith("nightscreen: stopped before anything was asked")
    assert "Traceback" not in out + err
