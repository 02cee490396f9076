"""The command in this process, where starting the engine would be a mistake."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Protocol

import pytest

from nightscreen.cli import engine, entry
from nightscreen.results.decision_list import write_decisions
from nightscreen.schemas.clock import system_clock
from tests.begun import begin_run
from tests.cli.command import SERVICE, Ended
from tests.results.enriched_in_a_test import enriched_row, write_part
from tests.results.enriched_in_a_test import listed as listing
from tests.results.nights_in_a_test import BATCH, Nights


class Here(Protocol):
    """Runs the command in this process, in a folder of its own."""

    def __call__(self, *arguments: str, given: str = "") -> Ended:
        """Return how it ended; `given` is its standard input, which is no terminal."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty working directory, with an address and a key in the environment."""
    for name in [each for each in os.environ if each.startswith("NIGHTSCREEN_")]:
        monkeypatch.delenv(name)
    for name, value in SERVICE.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    """Return the command without an engine: to start one fails the test."""

    def refuse(_: str) -> None:
        raise AssertionError("the engine was about to start")

    monkeypatch.setattr(engine, "begin_engine", lambda: None)
    monkeypatch.setattr(engine, "prepare_engine", refuse)

    def run(*arguments: str, given: str = "") -> Ended:
        monkeypatch.setattr("sys.argv", ["nightscreen", *arguments])
        monkeypatch.setattr("sys.stdin", io.StringIO(given))
        with pytest.raises(SystemExit) as ended:
            entry.run()
        said = capsys.readouterr()
        status = ended.value.code
        assert isinstance(status, int)
        return Ended(status, said.out, said.err)

    return run


@pytest.fixture
def listed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a screened night with its decision list; HOME is its journal's."""
    monkeypatch.setenv("NIGHTSCREEN_HOME", str(folder / "home"))
    nights = Nights(folder, now=system_clock())
    run = nights.folder("run-1")
    begin_run(nights.journal, "run-1", batch=BATCH, folder=str(run.path))
    rows = [
        enriched_row("0007", decision="decline", reasons=["KARMA_DEFAULT"], **listing()),
        enriched_row("=1+1", decision="review", reasons=["THIN_FILE"]),
        enriched_row("C", decision="approve"),
    ]
    nights.night("run-1", *rows)
    write_decisions(run, [write_part(run.path, rows)], run_id="run-1", reasons={}, scratch=folder)
    nights.journal.close()
    return run.path
