"""One worker and sandbox on the session's engine server; each test here has a home of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nightscreen.sandbox.process import SandboxProcess
from tests.flows.engine_in_a_test import Engine, in_process, working_engine
from tests.services import EngineServer

API_KEY = "sk-marker-7f3c9d51e8a24b60"


@pytest.fixture(scope="session")
def running_sandbox() -> Iterator[SandboxProcess]:
    with SandboxProcess(api_key=API_KEY) as process:
        yield process


@pytest.fixture
def sandbox(running_sandbox: SandboxProcess) -> SandboxProcess:
    running_sandbox.reset("calm")
    return running_sandbox


@pytest.fixture(scope="session")
def nightscreen_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state of the worker's machine."""
    return tmp_path_factory.mktemp("nightscreen")


@pytest.fixture(scope="package")  # not longer: its worker asks the server every second
def engine(
    engine_server: EngineServer,
    running_sandbox: SandboxProcess,
    nightscreen_home: Path,
) -> Iterator[Engine]:
    """The server with the deployments of prefect.yaml, and a worker that has no key of its own."""
    extra = {
        "NIGHTSCREEN_BASE_URL": running_sandbox.url,
        "NIGHTSCREEN_HOME": str(nightscreen_home),
        "NIGHTSCREEN_TOLERATED_FAILURE_PCT": "100",
    }
    with working_engine(Engine(engine_server, extra), API_KEY) as running:
        yield running


@pytest.fixture
def at_home(engine: Engine, sandbox: SandboxProcess, tmp_path: Path) -> Iterator[Path]:
    """Flows of this process use the engine, the sandbox and a new home under this folder."""
    with in_process(engine, sandbox.url, tmp_path / "home", API_KEY):
        yield tmp_path
