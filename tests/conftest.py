"""Fixtures for all folders of tests, and the distribution of tests over processes."""

from __future__ import annotations

import gc
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text
from xdist.scheduler import LoadFileScheduling

from tests import how_many
from tests.compiled_sql import share_compiled_sql
from tests.laws import require_declared_below, require_laws_below
from tests.nights.standard import StandardNight, StandardNights
from tests.screening import World
from tests.services import EngineServer, Session, engine_in_use, shared_engine, shared_postgresql

gc.disable()  # until all tests are collected: see `pytest_collection_finish`

# Every command under test is a separate process: without stored bytecode each would compile the
# product's modules again, which takes a second of processor time.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

MEMORY = Path("/dev/shm")  # noqa: S108 - a file system in memory on Linux
NEEDED_BYTES = 3_000_000_000
"""Three times the bytes that all tests together leave behind."""

# A commit waits milliseconds for a disk and none for memory, and no test cuts the machine's power.
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > NEEDED_BYTES:
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None  # clear the cached folder

share_compiled_sql()

FIRST = {
    "tests/flows/": "an engine",
    "tests/kill/": "kills",
    "tests/cli/test_runs.py": "the command's engine",
    "tests/docs/test_readme.py": "typed commands",
    "tests/privacy/": "privacy",
    "tests/demo/": "the demo",
    "tests/ops/": "on call",
    "tests/money/": "money",
    "tests/desk/": "the desk's two nights",
    "tests/nights/": "standard nights",
    "tests/runs/test_line.py": "standard nights",
    "tests/report/test_report_page.py": "standard nights",
    "tests/browser/test_report.py": "standard nights",
    "tests/files/test_outputs.py": "standard nights",
    "tests/sandbox/": "the simulator's process",
}
"""Groups of tests by path, the longest first; the tests of a group run in one process."""
SCREENED_BY_OTHERS = {"browser", "cli", "demo", "flows", "ops", "privacy"}
"""Folders of tests in which commands or Prefect flows screen."""
WRITTEN_BY_FLOWS = {
    *SCREENED_BY_OTHERS,
    "checks",
    "inbox",
    "operations",
    "personal",
    "planning",
    "policy",
    "portal",
    "reading",
    "results",
    "runs",
}
"""Folders of tests in which flows write their files."""
_SESSION = pytest.StashKey[Session]()


class LongestFirst(LoadFileScheduling):  # type: ignore[misc] # it ships no types
    """Assigns whole files to processes, and the files of a group to one process."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return next((group for prefix, group in FIRST.items() if file.startswith(prefix)), file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LongestFirst:
    """Choose how tests are distributed over processes; this one collects no tests itself."""
    gc.enable()
    return LongestFirst(config, log)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Use one process more than there are cores: tests wait for servers a third of the time."""
    return (os.cpu_count() or 1) + 1


def pytest_configure(config: pytest.Config) -> None:
    """Start a session in its first process; its worker processes inherit the session."""
    how_many.choose(quick="not long" in config.option.markexpr)
    if not hasattr(config, "workerinput"):
        config.stash[_SESSION] = Session()


def pytest_unconfigure(config: pytest.Config) -> None:
    """End everything that the session started."""
    gc.unfreeze()
    session = config.stash.get(_SESSION, None)
    if session is not None:
        session.close()


def pytest_collection_finish() -> None:
    """Begin to collect garbage, except the objects that exist before the first test.

    Modules and tests are half a million objects that stay; scanning them again and again took a
    tenth of the processor time.
    """
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the longest tests first."""

    def rank(item: pytest.Item) -> int:
        ranks = (rank for rank, prefix in enumerate(FIRST) if item.nodeid.startswith(prefix))
        return next(ranks, len(FIRST))

    items.sort(key=rank)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let tests share the Prefect server, except those that need it alone."""
    if item.get_closest_marker("engine") is None:
        return (yield)
    with engine_in_use(alone=item.get_closest_marker("alone") is not None):
        return (yield)


@pytest.fixture(autouse=True)
def lawful_nights(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check the laws for runs of commands and flows, and that their files are declared."""
    yield
    folder = request.node.funcargs.get("tmp_path")
    if folder is not None and request.path.parent.name in SCREENED_BY_OTHERS:
        require_laws_below(folder)
    if folder is not None and request.path.parent.name in WRITTEN_BY_FLOWS:
        require_declared_below(folder)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture(scope="session")
def standard_nights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandardNights]:
    """Yield the standard nights of this process, each screened on first use."""
    nights = StandardNights(tmp_path_factory.mktemp("nights"))
    yield nights
    nights.close()


@pytest.fixture
def standard_night(standard_nights: StandardNights) -> Iterator[StandardNight]:
    """Yield a function that returns a standard night by name; tests must not change its files."""
    yield standard_nights.get
    changed = standard_nights.changed()
    assert not changed, f"the test changed a standard night: {changed}"


@pytest.fixture(scope="session")
def engine_server() -> EngineServer:
    return shared_engine()


@pytest.fixture(scope="session")
def postgresql() -> str:
    """Return the URL of the default database of the session's PostgreSQL."""
    return shared_postgresql()


@pytest.fixture
def database_url(postgresql: str) -> Iterator[str]:
    """Yield the URL of an empty database, for tests that need a whole database."""
    url = make_url(postgresql).set(drivername="postgresql+psycopg")
    name = f"t{secrets.token_hex(6)}"
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    empty = url.set(database=name).update_query_dict({"options": "-c search_path=public"})
    yield empty.render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


@pytest.fixture
def schema_url(postgresql: str) -> Iterator[str]:
    """Yield the URL of an empty schema."""
    url = make_url(postgresql).set(drivername="postgresql+psycopg")
    name = f"t{secrets.token_hex(6)}"
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text(f"CREATE SCHEMA {name}"))
    empty = url.update_query_dict({"options": f"-c search_path={name}"})
    yield empty.render_as_string(hide_password=False)
    with engine.begin() as connection:
        connection.execute(text(f"DROP SCHEMA {name} CASCADE"))
    engine.dispose()
