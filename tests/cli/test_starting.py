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
finally:
    print("loaded", *sorted(sys.modules), file=sys.stderr)
"""


def _loaded(folder: Path, *arguments: str, **settings: str) -> set[str]:
    """Return the modules that a command had loaded at its end."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        cwd=folder,
        env={**os.environ, **surroundings(folder, **{**SERVICE, **settings})},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    word, *names = done.stderr.splitlines()[-1].split()
    assert (word, "nightscreen.cli.main" in names) == ("loaded", True)
    return set(names)


def test_the_list_of_commands_loads_none_of_them(tmp_path: Path) -> None:
    """No engine, no tables, no database, no network, no module of a command."""
    loaded = _loaded(tmp_path, "--help")
    assert not loaded & {*HEAVY, "pydantic", "asyncio", "nightscreen.cli.command"}


def test_help_of_no_command_loads_engine_or_simulator(tmp_path: Path) -> None:
    """Only a command that runs a flow loads Prefect, once it is called."""
    code = (
        "import sys; from nightscreen.cli.main import COMMANDS, load\n"
        "for name in COMMANDS.keys() - {'sandbox', 'demo'}: load(name)\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "nightscreen.cli.main" in loaded
    assert not loaded & {"prefect", "nightscreen.sandbox"}


def test_a_quote_starts_without_the_engine(tmp_path: Path) -> None:
    """It reads and reckons; nothing needs a server."""
    (tmp_path / "batch.csv").write_text(TABLE)
    loaded = _loaded(tmp_path, "screen", "batch.csv", "--quote-only")
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
