"""Approval of spending on a real engine: a run ends for want of it, a record resumes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.process import SandboxProcess
from tests.flows.conftest import API_KEY
from tests.flows.engine_in_a_test import BLOCK, Engine, until

pytestmark = [pytest.mark.engine, pytest.mark.long]


def typed(engine: Engine, *words: str, **settings: str) -> dict[str, Any]:
    """Type a command, wait for its end and return the document it prints."""
    running = engine.command(*words, "--json", NIGHTSCREEN_API_KEY=API_KEY, **settings)
    said, complaint = running.communicate(timeout=180)
    assert running.returncode == 0, complaint
    return dict(json.loads(said))


def calls(sandbox: SandboxProcess) -> int:
    return int(sandbox.totals()["totals"]["requests"])


@pytest.fixture
def dear(engine: Engine, tmp_path: Path) -> Iterator[dict[str, str]]:
    """A home of its own for runs of the deployment adhoc, which need approval from one naira."""
    name = "screen-batch/adhoc"
    found = engine.api.get(f"/deployments/name/{name}").raise_for_status().json()
    home = {"NIGHTSCREEN_HOME": str(tmp_path / "home")}
    env = {
        **home,
        "NIGHTSCREEN_APPROVAL_ABOVE": "1",
        "NIGHTSCREEN_API_KEY": f"{{{{ prefect.blocks.secret.{BLOCK} }}}}",
    }
    engine.change_deployment(name, {"job_variables": {"env": env}})
    yield home
    engine.change_deployment(name, {"job_variables": found["job_variables"]})


def test_a_run_of_a_deployment_is_resumed_by_the_deployment(
    engine: Engine, sandbox: SandboxProcess, dear: dict[str, str], tmp_path: Path
) -> None:
    """The flow run is over while it waits: no slot is held; another one takes the run on."""
    sandbox.post("/_sandbox/latency", {"kind": "none"})
    make_batch(tmp_path / "borrowers.csv", rows=30, seed=6)
    parameters = {"input": str(tmp_path / "borrowers.csv"), "output": str(tmp_path / "out")}
    first = engine.start(parameters)
    assert engine.wait_for_end(first)["state_type"] == "COMPLETED"
    assert calls(sandbox) == 0
    (waiting,) = typed(engine, "runs", "list", **dear)["runs"]
    assert waiting["approval"] == "waiting"
    told = typed(engine, "approve", waiting["run_id"], **dear)
    assert told["resumed_by"] == "the deployment screen-batch/adhoc"
    assert told["approval"]["asked_by"] == "deployment adhoc"
    path = tmp_path / "out" / waiting["run_id"] / "report.json"

    def completed() -> dict[str, Any] | None:
        if not path.exists():  # it is replaced while the run goes on
            return None
        report: dict[str, Any] = json.loads(path.read_text())
        return report if report["state"] == "completed" else None

    report = until(completed, f"the resumed run\n{engine.logs()}")
    assert report["cost"]["cap"] == told["approval"]["max_spend"]
    assert calls(sandbox) > 0
