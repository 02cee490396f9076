"""The command as a user calls it: a child process with an environment of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import session_end
from tests.shifted.sitecustomize import SHIFT

COMMAND = str(Path(sys.executable).with_name("nightscreen"))
NOBODY_LISTENS = "http://127.0.0.1:9"
SERVICE = {"NIGHTSCREEN_BASE_URL": NOBODY_LISTENS, "NIGHTSCREEN_API_KEY": "sandbox-key"}
KEPT = ("PATH", "PYTHONPATH", "PREFECT_API_URL", "TZ", SHIFT, session_end.FOLDER)


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it wrote."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:  # noqa: ANN401 - whatever the command prints
        """Return stdout as the one JSON document that it must be."""
        return json.loads(self.out)


def surroundings(folder: Path, **settings: str) -> dict[str, str]:
    """Return an environment with nothing of this machine's user in it."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return {
        **kept,
        "HOME": str(folder / "user"),
        "PREFECT_HOME": str(folder / "prefect"),
        "LANG": "C.UTF-8",
        "COLUMNS": "100",
        **settings,
    }


@contextmanager
def serving(
    *arguments: str,
    cwd: Path,
    env: Mapping[str, str],
    stop: signal.Signals = signal.SIGTERM,
) -> Iterator[Callable[[], str]]:
    """Run a command that serves, stop it in good order; give what reads a line that it says."""
    with (cwd / f"{arguments[0]}.log").open("wb") as log:
        child = subprocess.Popen(
            [COMMAND, *arguments],
            cwd=cwd,
            env=dict(env),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert child.stdout is not None
    lines = child.stdout
    try:
        yield lambda: lines.readline().rstrip("\n")
    finally:
        child.send_signal(stop)
        status = child.wait(60)
        lines.close()
    assert status == 0


def nightscreen(
    *arguments: str, cwd: Path, env: Mapping[str, str] | None = None, patience_s: float = 180
) -> Ended:
    """Run the command to its end."""
    done = subprocess.run(
        [COMMAND, *arguments],
        cwd=cwd,
        env=dict(env if env is not None else surroundings(cwd, **SERVICE)),
        capture_output=True,
        text=True,
        timeout=patience_s,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)
