"""A screening as a user runs it, with everything it leaves in one folder that can be searched."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from nightscreen.sandbox.process import SandboxProcess
from tests.cli.command import COMMAND, Ended, surroundings
from tests.left_behind import content
from tests.privacy.people import Marked, mark

API_KEY = "Marked-Key-Zqx93"
PERMITTED = ("quarantine.csv", "enriched/")
"""Places in a run's folder where the contract has identifiers in clear."""
_PATIENCE_S = 300.0


@dataclass(frozen=True)
class Place:
    """A working directory: HOME, engine and output under it, the input beside it."""

    folder: Path
    marked: Marked
    env: dict[str, str]

    def screen(self, *arguments: str) -> Ended:
        """Screen the batch to its end, and keep what was said with the rest."""
        child = self.start(*arguments)
        out, err = child.communicate(timeout=_PATIENCE_S)
        (self.folder / f"said-{child.pid}.txt").write_text(out + err, encoding="utf-8")
        return Ended(child.returncode, out, err)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [COMMAND, "screen", str(self.marked.file), *arguments],
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def searched(self) -> Iterator[tuple[str, bytes]]:
        """Yield everything in which nothing may be found: names, files, decoded tables."""
        for path in sorted(self.folder.rglob("*")):
            name = str(path.relative_to(self.folder))
            yield f"name of {name}", name.encode()
            inside = name.partition("/")[2].partition("/")[2]
            if not path.is_file() or (name.startswith("out/") and inside.startswith(PERMITTED)):
                continue
            yield name, content(path)


@pytest.fixture(scope="session")
def sandbox() -> Iterator[SandboxProcess]:
    """Return a simulator with a key of its own, whose faults do not take long."""
    with SandboxProcess(api_key=API_KEY, balance="100000") as running:
        quick = {"silence_s": 0.3, "slow_s": 0.2}
        running.post("/_sandbox/manners", quick)
        running.post("/_sandbox/faults", {"retry_after_s": 0.1})
        yield running


@pytest.fixture
def place(tmp_path: Path, sandbox: SandboxProcess) -> Place:
    """Return a working directory that begins with nothing, with a marked batch beside it."""
    inside = tmp_path / "inside"
    inside.mkdir()
    env = surroundings(
        inside,
        NIGHTSCREEN_BASE_URL=sandbox.url,
        NIGHTSCREEN_API_KEY=API_KEY,
        NIGHTSCREEN_TIMEOUT_S__KARMA="2",
        NIGHTSCREEN_TIMEOUT_S__ECOSYSTEM="2",
        NIGHTSCREEN_TIMEOUT_S__BANK_ACCOUNT="2",
        NIGHTSCREEN_ATTEMPTS="1",
        NIGHTSCREEN_TOLERATED_FAILURE_PCT="100",
        PREFECT_LOGGING_LEVEL="DEBUG",
    )
    env.pop("PREFECT_API_URL", None)
    return Place(inside, mark(tmp_path / "batch.csv"), env)
