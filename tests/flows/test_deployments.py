"""What prefect.yaml deploys: it runs on a real worker, and its form can be filled in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from nightscreen.config.parameters import ScreenBatch
from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.process import SandboxProcess
from tests.flows.engine_in_a_test import Engine, until

pytestmark = pytest.mark.engine

STATIONS = {"take in", "plan", "price", "open books", "close books", "write rows", "report"}
ROWS = 120


class Night(NamedTuple):
    """A run of the ad-hoc deployment that has ended, and what the sandbox says of it."""

    flow_run: dict[str, Any]
    folder: Path
    report: dict[str, Any]
    ledger: dict[str, Any]


@pytest.fixture(scope="module")
def night(
    engine: Engine, running_sandbox: SandboxProcess, tmp_path_factory: pytest.TempPathFactory
) -> Night:
    """A batch, triggered by hand by the pattern a nightly run has."""
    inbox = tmp_path_factory.mktemp("inbox")
    running_sandbox.reset("calm")
    running_sandbox.post("/_sandbox/latency", {"kind": "none"})
    make_batch(inbox / "portfolio-20260301.csv", rows=ROWS, seed=11)
    asked = {"input": str(inbox / "portfolio-*.csv"), "output": str(inbox / "out")}
    flow_run = engine.wait_for_end(engine.start(asked))
    assert flow_run["state_type"] == "COMPLETED", engine.logs()
    (folder,) = (inbox / "out").iterdir()
    report = json.loads((folder / "report.json").read_text())
    return Night(flow_run, folder, report, running_sandbox.totals())


def test_adhoc_run_leaves_rows_and_report(night: Night) -> None:
    """A run on a worker writes the enriched rows and a report that agrees with the ledger."""
    enriched = pq.read_table(night.folder / "enriched")
    rows = night.report["rows"]
    assert night.report["state"] == "completed"
    assert enriched.num_rows == rows["screened"]
    assert rows["read"] == ROWS == rows["screened"] + rows["quarantined"]
    assert float(night.report["cost"]["total"]) == float(night.ledger["totals"]["charged"])
    assert (night.folder / "manifest.json").exists()


def test_key_reaches_the_run_through_the_secret_block_only(night: Night, engine: Engine) -> None:
    """The worker has no key of its own; deployments hold neither the key nor its block's name."""
    assert night.report["cost"]["total"] != "0.00"
    assert "NIGHTSCREEN_API_KEY" not in engine.env
    assert "env" not in engine.deployment("adhoc")["job_variables"]
    pool = engine.api.get("/work_pools/nightscreen").json()
    env = pool["base_job_template"]["variables"]["properties"]["env"]["default"]
    assert env == {"NIGHTSCREEN_API_KEY": "{{ prefect.blocks.secret.nightscreen-api-key }}"}


def test_task_runs_are_checks_and_stations_never_lookups(night: Night, engine: Engine) -> None:
    names = [run["name"] for run in engine.task_runs(night.flow_run["id"])]
    stations = [name.rsplit("-", 1)[0] for name in names]
    checks = night.report["checks"]
    asked = {f"check {check.replace('_', ' ')}" for check in checks}
    assert sorted(stations) == sorted(STATIONS | asked)
    assert sum(check["distinct"] for check in checks.values()) > 20 * len(names)


def test_nightly_deployment_is_scheduled(engine: Engine) -> None:
    """The server itself makes the coming nights' runs, at the hour of Lagos, one at a time."""
    nightly = engine.deployment("nightly")
    (schedule,) = nightly["schedules"]
    coming = until(lambda: scheduled_runs(engine, nightly["id"]), "the scheduled runs")
    assert schedule["active"]
    assert schedule["schedule"]["timezone"] == "Africa/Lagos"
    assert nightly["global_concurrency_limit"]["limit"] == 1
    assert nightly["concurrency_options"]["collision_strategy"] == "CANCEL_NEW"
    assert {run["expected_start_time"][11:16] for run in coming} == {"20:00"}
    assert all(set(run["tags"]) >= {"nightscreen", "nightly"} for run in coming)


def scheduled_runs(engine: Engine, deployment_id: str) -> list[dict[str, Any]]:
    wanted = {"deployments": {"id": {"any_": [deployment_id]}}}
    return list(engine.post("/flow_runs/filter", wanted))


def test_form_can_be_filled_in_by_an_analyst(engine: Engine) -> None:
    """Each field has a title, a sentence and a default; choices are lists to pick from."""
    stored = engine.deployment("adhoc")["parameter_openapi_schema"]
    fields = stored["definitions"]["ScreenBatch"]["properties"]
    for name, field in fields.items():
        assert field["title"][0].isupper(), name
        assert len(field["description"]) > 20, name
        assert "default" in field, name
        assert "anyOf" not in field, name
    assert fields["purpose"]["enum"] == ["portfolio", "origination"]
    assert fields["checks"]["items"]["enum"] == ["bank_account", "karma", "ecosystem", "selfie"]
    assert fields["quote_only"]["type"] == "boolean"
    assert stored["required"] == ["parameters"]


def test_deployed_parameters_are_ones_the_flow_takes(engine: Engine) -> None:
    """What prefect.yaml fills in is valid, so that a night does not fail at its first line."""
    for name in ("nightly", "adhoc"):
        given = engine.deployment(name)["parameters"]["parameters"]
        assert ScreenBatch.model_validate(given).max_spend == "250000"
