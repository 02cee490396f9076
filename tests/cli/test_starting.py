"""Commands that run no flow start at once: they leave alone what they do not need."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.command import SERVICE, nightscreen, surroundings

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = ("prefect", "pyarrow", "sqlalchemy", "pandas", "duckdb", "httpx", "numpy", "rich")
NOT_TO_START = {
    "prefect",
    "fastapi",
    "starlette",
    "uvicorn",
    "nightscreen.sandbox",
    "xlsxwriter",
}
"""What serves, draws or writes lists: a command that only reckons would wait for them in vain."""
TABLE = "customer_id,bvn\nC1,22123456789\n"
RUN = """
import sys
from nightscreen.cli.main import run
sys.argv = ["nightscreen", *sys.argv[1:]]
try:
    run()
finally:
    print("loaded", *sorted(sys.modules), file=sys.stderr)
"""


def _loaded(folder: Path, *arguments: str) -> set[str]:
    """Return the modules that a command had loaded at its end."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        cwd=folder,
        env={**os.environ, **surroundings(folder, **SERVICE)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.rpartition("loaded ")[2].split())


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("screen",),
        ("quote",),
        ("inspect",),
        ("demo",),
        ("sandbox",),
        ("runs",),
        ("runs", "list"),
        ("runs", "show"),
        ("journal",),
        ("journal", "spend"),
    ],
    ids=" ".join,
)
def test_help_loads_nothing_heavy(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """No engine, no tables, no database, no network."""
    assert not _loaded(tmp_path, *arguments, "--help") & set(HEAVY)


@pytest.mark.parametrize(
    "arguments",
    [("inspect", "batch.csv"), ("quote", "batch.csv"), ("screen", "batch.csv", "--quote-only")],
    ids=" ".join,
)
def test_commands_without_a_flow_start_without_the_engine(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    """They read and reckon; nothing needs a server."""
    (tmp_path / "batch.csv").write_text(TABLE)
    assert not _loaded(tmp_path, *arguments) & NOT_TO_START


def test_the_journal_is_looked_into_without_engine_or_network(tmp_path: Path) -> None:
    """`runs` and `journal` need the database alone."""
    (tmp_path / "batch.csv").write_text(TABLE)
    env = surroundings(tmp_path, **SERVICE)
    assert nightscreen("quote", "batch.csv", cwd=tmp_path, env=env).status == 0
    for arguments in (("runs", "list"), ("journal", "spend"), ("journal", "in-doubt")):
        assert not _loaded(tmp_path, *arguments) & {"prefect", "httpx", "pyarrow", "pandas"}
