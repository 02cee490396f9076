"""Commands that run no flow start at once: they leave alone what they do not need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.cli.command import SERVICE, surroundings

HEAVY = ("prefect", "pyarrow", "sqlalchemy", "pandas", "duckdb", "httpx", "numpy", "rich")
NOT_TO_START = {
    "prefect",
    "fastapi",
    "starlette",
    "uvicorn",
    "nightscreen.sandbox",
}
"""What serves or draws: a command that only reckons would wait in vain."""
AT_THE_END = {"openpyxl", "xlsxwriter", "jinja2", "nightscreen.runs.finalize"}
"""What writes lists and pages, of which there are none before lookups were answered."""
TABLE = "customer_id,bvn\nC1,22123456789\n"
RUN = """
import sys
from nightscreen.cli.entry import run
sys.argv = ["nightscreen", *sys.argv[1:]]
try:
    run()
except SystemExit as ended:
    print("loaded", ended.code, *sys.modules)
"""
EVERY_COMMAND = """
from nightscreen.cli.main import COMMANDS, load
for name in COMMANDS.keys() - {"sandbox", "demo"}:
    load(name)
print("loaded", 0, *sys.modules)
"""


def _loaded(folder: Path, program: str, *arguments: str) -> list[set[str]]:
    """Return the modules that were loaded each time that the program prints them."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=folder,
        env={**os.environ, **surroundings(folder, **SERVICE)},
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    printed = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("loaded ")]
    assert {status for status, *_ in printed} == {"0"}, done.stderr
    assert all("nightscreen.cli.main" in names for names in printed)
    return [set(names) for _, *names in printed]


def test_the_list_of_commands_loads_none_of_them_and_their_help_no_engine(tmp_path: Path) -> None:
    """No engine, no tables, no database, no network, no module of a command.

    Only a command that runs a flow loads Prefect, once it is called.
    """
    listed, every = _loaded(tmp_path, RUN + EVERY_COMMAND, "--help")
    assert not listed & {*HEAVY, "pydantic", "asyncio", "nightscreen.cli.command"}
    assert not every & {"prefect", "nightscreen.sandbox"}


def test_a_quote_starts_without_the_engine(tmp_path: Path) -> None:
    """It reads and reckons; nothing needs a server."""
    (tmp_path / "batch.csv").write_text(TABLE)
    (loaded,) = _loaded(tmp_path, RUN, "screen", "batch.csv", "--quote-only")
    assert not loaded & (NOT_TO_START | AT_THE_END - {"jinja2"})


def test_the_text_of_a_library_is_left_out() -> None:
    """What a library logs or warns of could quote a row: its kind and place are enough."""
    code = (
        "import logging, warnings; from nightscreen.cli.entry import quiet_libraries\n"
        "quiet_libraries(); warnings.warn('of 22212345678')\n"
        "logging.getLogger('some.library').warning('for 22212345678 %s', 'Ngozi')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "WARNING some.library" in done.stderr
    assert not [word for word in ("22212345678", "Ngozi") if word in done.stdout + done.stderr]
