"""Approval of spending on a real engine: a run ends for want of it, a record resumes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nightscreen.client.prices import PRICES
from nightscreen.journal import open_journal
from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.process import SandboxProcess
from tests.flows.conftest import API_KEY
from tests.flows.engine_in_a_test import BLOCK, Engine, until
from tests.operations.pulls_in_a_test import consent_at

pytestmark = [pytest.mark.engine, pytest.mark.long]


def typed(engine: Engine, *words: str, **settings: str) -> dict[str, Any]:
    """Type a command, wait for its end and return the document it prints."""
    running = engine.command(*words, "--json", NIGHTSCREEN_API_KEY=API_KEY, **settings)
    said, complaint = running.communicate(timeout=180)
    assert running.returncode == 0, complaint
    return dict(json.loads(said))


def calls(sandbox: SandboxProcess) -> int:
    return int(sandbox.totals()["totals"]["requests"])


@pytest.fixture(params=["screen-batch/adhoc", "pull-transactions/transactions"])
def dear(
    engine: Engine, sandbox: SandboxProcess, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[str, dict[str, Any], dict[str, str]]]:
    """A deployment whose runs need approval from one naira, what it asks, and its home."""
    name, folder = str(request.param), tmp_path / "home"
    sandbox.post("/_sandbox/latency", {"kind": "none"})
    parameters = {"output": str(tmp_path / "out")}
    if name.startswith("screen"):
        make_batch(tmp_path / "borrowers.csv", rows=30, seed=6)
        parameters["input"] = str(tmp_path / "borrowers.csv")
    with open_journal(folder) as journal:
        consent_at(sandbox, journal, ["ONE-1", "TWO-2"])
    free = 'aggregator_transactions = "0"'
    (folder / "prices.toml").write_text(PRICES.read_text().replace(free, free.replace("0", "5")))
    found = engine.api.get(f"/deployments/name/{name}").raise_for_status().json()
    home = {"NIGHTSCREEN_HOME": str(folder)}
    env = {
        **home,
        "NIGHTSCREEN_APPROVAL_ABOVE": "1",
        "NIGHTSCREEN_API_KEY": f"{{{{ prefect.blocks.secret.{BLOCK} }}}}",
    }
    engine.change_deployment(name, {"job_variables": {"env": env}})
    yield name, parameters, home
    engine.change_deployment(name, {"job_variables": found["job_variables"]})


def test_a_run_of_a_deployment_is_resumed_by_the_deployment(
    engine: Engine,
    sandbox: SandboxProcess,
    dear: tuple[str, dict[str, Any], dict[str, str]],
    tmp_path: Path,
) -> None:
    """The flow run is over while it waits: no slot is held; another one takes the run on."""
    deployment, parameters, home = dear
    before = calls(sandbox)
    first = engine.start_deployment(deployment, parameters)
    assert engine.wait_for_end(first)["state_type"] == "COMPLETED"
    assert calls(sandbox) == before
    (waiting,) = typed(engine, "runs", "list", **home)["runs"]
    assert waiting["approval"] == "waiting"
    told = typed(engine, "approve", waiting["run_id"], **home)
    assert told["resumed_by"] == f"the deployment {deployment}"
    assert told["approval"]["asked_by"] == f"deployment {deployment.partition('/')[2]}"
    path = tmp_path / "out" / waiting["run_id"] / "report.json"

    def completed() -> dict[str, Any] | None:
        if not path.exists():  # it is replaced while the run goes on
            return None
        report: dict[str, Any] = json.loads(path.read_text())
        return report if report["state"] == "completed" else None

    report = until(completed, f"the resumed run\n{engine.logs()}")
    assert report["cost"]["cap"] == told["approval"]["max_spend"]
    assert calls(sandbox) > before
