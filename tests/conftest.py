"""Fixtures that every folder of tests may use, and how tests are spread over processes."""

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
from tests.laws import require_declared_below, require_laws_below
from tests.nights.standard import StandardNight, StandardNights
from tests.screening import World
from tests.services import EngineServer, Session, engine_in_use, shared_engine, shared_postgresql

# Every command under test is a process of its own: where compiled modules are not kept, each of
# them would compile ours anew, a second of a processor each time.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

MEMORY = Path("/dev/shm")  # noqa: S108 - where Linux keeps files in memory
ROOM = 3_000_000_000
"""Bytes that all tests together leave behind, three times over."""

# A commit waits milliseconds for a disk and none for memory, and no test cuts the machine's power.
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM:
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None  # whoever asked before is asked again

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
}
"""What takes longest is begun first, and what shares a fixture of a session shares a process."""
SCREENED_BY_OTHERS = {"browser", "cli", "demo", "flows", "ops", "privacy"}
"""Folders of tests whose nights are screened by commands or in an engine."""
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
"""Folders of tests in which runs of every flow write their files."""
_SESSION = pytest.StashKey[Session]()


class LongestFirst(LoadFileScheduling):  # type: ignore[misc] # it ships no types
    """Hands whole files to processes, and those that share an engine's worker to one of them."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return next((group for prefix, group in FIRST.items() if file.startswith(prefix)), file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LongestFirst:
    """Choose how tests are spread over processes, where they are."""
    return LongestFirst(config, log)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Have a process more than there are cores: a third of the time tests wait for others."""
    return (os.cpu_count() or 1) + 1


def pytest_configure(config: pytest.Config) -> None:
    """Begin a session in its first process; the workers of that process inherit it."""
    how_many.choose(quick="not long" in config.option.markexpr)
    if not hasattr(config, "workerinput"):
        config.stash[_SESSION] = Session()


def pytest_unconfigure(config: pytest.Config) -> None:
    """End what the session has started."""
    gc.unfreeze()
    session = config.stash.get(_SESSION, None)
    if session is not None:
        session.close()


def pytest_collection_finish() -> None:
    """Have the collector of garbage leave alone what is there before the first test.

    Modules and tests are half a million objects, and stay; to look through them again and again
    took a tenth of the processor's time.
    """
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest."""

    def place(item: pytest.Item) -> int:
        found = (place for place, prefix in enumerate(FIRST) if item.nodeid.startswith(prefix))
        return next(found, len(FIRST))

    items.sort(key=place)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let tests use the engine's server side by side, but for those that need it alone."""
    if item.get_closest_marker("engine") is None:
        return (yield)
    with engine_in_use(alone=item.get_closest_marker("alone") is not None):
        return (yield)


@pytest.fixture(autouse=True)
def lawful_nights(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hold the laws after nights that commands and engines screened, and what flows wrote."""
    yield
    folder = request.node.funcargs.get("tmp_path")
    if folder is not None and request.path.parent.name in SCREENED_BY_OTHERS:
        require_laws_below(folder)
    if folder is not None and request.path.parent.name in WRITTEN_BY_FLOWS:
        require_declared_below(folder)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return a sandbox, a HOME and an output folder of this test's own."""
    return World(tmp_path)


@pytest.fixture(scope="session")
def standard_nights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandardNights]:
    """Give the standard nights of this process, each spent when it is first asked for."""
    nights = StandardNights(tmp_path_factory.mktemp("nights"))
    yield nights
    nights.close()


@pytest.fixture
def standard_night(standard_nights: StandardNights) -> Iterator[StandardNight]:
    """Give a standard night by its name (`tests/nights/spent.py`); it is to be read only."""
    yield standard_nights.get
    changed = standard_nights.changed()
    assert not changed, f"the test changed a standard night: {changed}"


@pytest.fixture(scope="session")
def engine_server() -> EngineServer:
    """Return the one engine server of the session."""
    return shared_engine()


@pytest.fixture(scope="session")
def postgresql() -> str:
    """Return the URL of the first database of the session's one PostgreSQL."""
    return shared_postgresql()


@pytest.fixture
def database_url(postgresql: str) -> Iterator[str]:
    """Give the URL of an empty database of its own, for what a whole database is asked about."""
    url = make_url(postgresql).set(drivername="postgresql+psycopg")
    name = f"t{secrets.token_hex(6)}"
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    given = url.set(database=name).update_query_dict({"options": "-c search_path=public"})
    yield given.render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


@pytest.fixture
def schema_url(postgresql: str) -> Iterator[str]:
    """Give the URL of an empty schema of its own."""
    url = make_url(postgresql).set(drivername="postgresql+psycopg")
    name = f"t{secrets.token_hex(6)}"
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text(f"CREATE SCHEMA {name}"))
    given = url.update_query_dict({"options": f"-c search_path={name}"})
    yield given.render_as_string(hide_password=False)
    with engine.begin() as connection:
        connection.execute(text(f"DROP SCHEMA {name} CASCADE"))
    engine.dispose()
