"""A real Prefect server and process worker for the tests here, and ways to ask them things.

Everything runs in child processes with a PREFECT_HOME of its own. What is expected of a run stands
in the tests.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from prefect.blocks.system import Secret
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from prefect.settings import (
    PREFECT_API_AUTH_STRING,
    PREFECT_API_URL,
    PREFECT_HOME,
    temporary_settings,
)

from tests.cli.command import COMMAND
from tests.services import LOGIN, EngineServer

ROOT = Path(__file__).resolve().parents[2]
POOL = "nightscreen"
BLOCK = "nightscreen-api-key"
SCHEDULED = (
    *("watch-inbox/inbox", "pull-transactions/transactions", "pull-accounts/accounts"),
    "track-loans/loans",
)
"""Deployments that would begin by themselves at some hour; the nightly one has its own tests."""
PATIENCE_S = 120.0
FINAL = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}


def until(found: Callable[[], Any], what: str, patience_s: float = PATIENCE_S) -> Any:  # noqa: ANN401
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        time.sleep(0.2)
    raise TimeoutError(f"waited too long: {what}")


@dataclass
class Engine:
    """A server and a worker, the environment of their processes and their log files."""

    server: EngineServer
    extra: Mapping[str, str]
    api: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        user, _, password = LOGIN.partition(":")
        self.api = httpx.Client(
            base_url=self.server.url, timeout=30, trust_env=False, auth=(user, password)
        )

    @property
    def home(self) -> Path:
        return self.server.folder

    @property
    def settings(self) -> dict[Any, Any]:
        """Prefect's settings of a process of the tests that uses it."""
        return {
            PREFECT_API_URL: self.server.url,
            PREFECT_API_AUTH_STRING: LOGIN,
            PREFECT_HOME: self.home,
        }

    @property
    def env(self) -> dict[str, str]:
        return {
            **self.server.env,
            "PREFECT_WORKER_QUERY_SECONDS": "1",
            "NIGHTSCREEN_INBOX": str(self.home / "inbox"),
            **self.extra,
        }

    def command(self, *words: str, **settings: str) -> subprocess.Popen[str]:
        """Start a command of nightscreen, as on a terminal of a machine that uses this engine."""
        return subprocess.Popen(
            [COMMAND, *words],
            env={**self.env, **settings},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @contextmanager
    def child(self, name: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run a Prefect command that stays, in a group of its own, until the body ends."""
        with (self.home / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "prefect", *arguments],
                env=self.env,
                stdout=log,
                stderr=log,
                cwd=self.home,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(8)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def worker(
        self, name: str, pool: str, *, limit: int
    ) -> AbstractContextManager[subprocess.Popen[bytes]]:
        """Run a worker of a pool, which takes so many flow runs at once, until the body ends."""
        words = ("--pool", pool, "--name", name, "--limit", str(limit))
        return self.child(f"worker-{name}", "worker", "start", *words)

    def make_pool(self, name: str) -> None:
        """Make a pool of processes as the project describes it."""
        template = json.loads((ROOT / "flows" / "work_pool.json").read_bytes())
        self.post("/work_pools/", {"name": name, "type": "process", "base_job_template": template})

    def prefect(self, *arguments: str) -> str:
        """Run a Prefect command from the project's folder and return what it says."""
        done = subprocess.run(
            [sys.executable, "-m", "prefect", "--no-prompt", *arguments],
            env=self.env,
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401
        """Ask the server's API and return the document; a busy one asks for patience by a 503."""

        def answered() -> httpx.Response | None:
            answer = self.api.post(path, json=dict(body or {}))
            return None if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE else answer

        answer: httpx.Response = until(answered, f"an answer from {path}")
        answer.raise_for_status()
        return answer.json()

    def deployment(self, name: str) -> dict[str, Any]:
        answer = self.api.get(f"/deployments/name/screen-batch/{name}")
        answer.raise_for_status()
        return dict(answer.json())

    def change_deployment(self, name: str, changes: Mapping[str, Any]) -> None:
        """Change what the server holds of a deployment, found by its flow's name and its own."""
        found = self.api.get(f"/deployments/name/{name}").raise_for_status().json()
        place = f"/deployments/{found['id']}"  # a busy server asks for patience by a 503
        until(lambda: self.api.patch(place, json=dict(changes)).is_success, f"changing {name}")

    def start(self, parameters: Mapping[str, Any]) -> str:
        """Trigger the ad-hoc deployment by hand and return the flow run's id."""
        return self.start_deployment("screen-batch/adhoc", parameters)

    def start_deployment(self, name: str, parameters: Mapping[str, Any]) -> str:
        """Start a deployment, found by its flow's name and its own; return the flow run's id."""
        found = self.api.get(f"/deployments/name/{name}").raise_for_status().json()
        asked = {"parameters": {"parameters": dict(parameters)}}
        return str(self.post(f"/deployments/{found['id']}/create_flow_run", asked)["id"])

    def flow_run(self, flow_run_id: str) -> dict[str, Any]:
        return dict(self.api.get(f"/flow_runs/{flow_run_id}").raise_for_status().json())

    def wait_for_end(self, flow_run_id: str) -> dict[str, Any]:
        def ended() -> dict[str, Any] | None:
            run = self.flow_run(flow_run_id)
            return run if run["state_type"] in FINAL else None

        return dict(until(ended, f"the end of flow run {flow_run_id}\n{self.logs()}"))

    def task_runs(self, flow_run_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while True:
            page = self.post(
                "/task_runs/filter",
                {"flow_runs": {"id": {"any_": [flow_run_id]}}, "offset": len(found)},
            )
            if not page:
                return found
            found += page

    def logs(self) -> str:
        """Return what server and worker said, for a failing test."""
        return "\n".join(path.read_text()[-4000:] for path in sorted(self.home.glob("*.log")))


@contextmanager
def working_engine(engine: Engine, api_key: str) -> Iterator[Engine]:
    """Make block and pool on a server that runs, deploy everything and start a worker.

    Args:
        engine: the server, and what its processes are given.
        api_key: the service's key, saved as a block.
    """
    with temporary_settings(engine.settings):
        saved = Secret(value=api_key).save(BLOCK, overwrite=True)
        if asyncio.iscoroutine(saved):
            asyncio.run(saved)
    engine.make_pool(POOL)
    engine.prefect("deploy", "--all")
    for name in SCHEDULED:  # whatever the hour, they start only where a test asks
        engine.change_deployment(name, {"paused": True})
    with engine.worker("night", POOL, limit=10):
        yield engine


@contextmanager
def in_process(engine: Engine, sandbox_url: str, home: Path, api_key: str) -> Iterator[None]:
    """Let flows of this process use the engine, the sandbox and a home of their own."""
    ours = {
        "NIGHTSCREEN_BASE_URL": sandbox_url,
        "NIGHTSCREEN_API_KEY": api_key,
        "NIGHTSCREEN_HOME": str(home),
    }
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        with temporary_settings(engine.settings):
            try:
                yield
            finally:
                APILogWorker.drain_all(timeout=10, at_exit=False)
                EventsWorker.drain_all(timeout=10, at_exit=False)
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
