"""Commands that run no flow start at once: they leave alone what they do not need."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from nightscreen.journal import open_journal
from nightscreen.sandbox.process import SandboxProcess
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


@pytest.mark.parametrize(
    "arguments",
    [
        ("screen", "batch.csv", "--quote-only"),
        pytest.param(("inspect", "batch.csv"), marks=pytest.mark.long),
        pytest.param(("quote", "batch.csv"), marks=pytest.mark.long),
    ],
    ids=" ".join,
)
def test_commands_without_a_flow_start_without_the_engine(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    """They read and reckon; nothing needs a server."""
    (tmp_path / "batch.csv").write_text(TABLE)
    assert not _loaded(tmp_path, *arguments) & (NOT_TO_START | AT_THE_END - {"jinja2"})


def test_the_first_lookup_waits_for_nothing_that_ends_a_run() -> None:
    """A flow that is loaded can ask; what writes its report is loaded once it has."""
    code = "import sys, nightscreen.flows.screen_batch; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    names = set(loaded.stdout.split())
    assert "nightscreen.tasks.screening_runner" in names
    assert not names & AT_THE_END


@pytest.mark.engine
def test_a_run_leaves_the_temporary_server_to_a_process_of_its_own(tmp_path: Path) -> None:
    """Where none runs: what Prefect's server is made of is not loaded beside the flow."""
    (tmp_path / "batch.csv").write_text(TABLE)
    with SandboxProcess() as sandbox:
        where = {"NIGHTSCREEN_BASE_URL": sandbox.url, "NIGHTSCREEN_API_KEY": sandbox.api_key}
        loaded = _loaded(tmp_path, "screen", "batch.csv", "--yes", **where, PREFECT_API_URL="")
    assert "nightscreen.flows.screen_batch" in loaded
    assert not {name for name in loaded if name.startswith(("prefect.server", "docket", "alembic"))}


def test_a_command_that_refuses_its_input_has_the_engine_write_nothing(tmp_path: Path) -> None:
    """The temporary server loads meanwhile; it makes its database once the command goes on."""
    env = surroundings(tmp_path, **SERVICE, PREFECT_API_URL="")
    ended = nightscreen("screen", "missing.csv", cwd=tmp_path, env=env)
    assert ended.status == 2
    assert "missing.csv" in ended.err
    assert not [*(tmp_path / "prefect").rglob("*.db*")]


def test_a_server_that_only_prefects_profile_names_is_used(tmp_path: Path) -> None:
    """As set by `prefect config set`: no temporary one is started instead."""
    (tmp_path / "batch.csv").write_text(TABLE)
    (tmp_path / "prefect").mkdir()
    profile = 'active = "mine"\n[profiles.mine]\nPREFECT_API_URL = "http://127.0.0.1:9/api"\n'
    (tmp_path / "prefect" / "profiles.toml").write_text(profile)
    env = surroundings(tmp_path, **SERVICE)
    env.pop("PREFECT_API_URL", None)
    ended = nightscreen("screen", "batch.csv", "--yes", cwd=tmp_path, env=env)
    assert ended.status == 2
    assert "the Prefect server http://127.0.0.1:9/api cannot be reached" in ended.err
    assert "temporary" not in ended.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("runs", "list"),
        pytest.param(("journal", "verify"), marks=pytest.mark.long),
        pytest.param(("journal", "in-doubt"), marks=pytest.mark.long),
    ],
    ids=" ".join,
)
def test_the_journal_is_looked_into_without_engine_or_network(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    """`runs` and `journal` need the database alone."""
    open_journal(tmp_path / "home").close()
    loaded = _loaded(tmp_path, *arguments, NIGHTSCREEN_HOME=str(tmp_path / "home"))
    assert not loaded & (set(HEAVY) - {"sqlalchemy", "numpy"})


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
