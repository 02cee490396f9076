"""What prefect.yaml deploys: it runs on a real worker, and its form can be filled in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from nightscreen.config.parameters import ScreenBatch
from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.process import SandboxProcess
from tests.flows.engine_in_a_test import Engine, until

pytestmark = pytest.mark.engine

STATIONS = {"take in", "plan", "price", "open books", "close books", "write rows", "report"}
ROWS = 120


def test_adhoc_run_leaves_rows_and_report(
    engine: Engine, sandbox: SandboxProcess, tmp_path: Path
) -> None:
    """A worker's run, by a nightly run's pattern, leaves rows and a report as the ledger says.

    Its task runs are checks and stations, never lookups. The key reaches it through the secret
    block alone: deployments hold neither the key nor its block's name.
    """
    sandbox.post("/_sandbox/latency", {"kind": "none"})
    make_batch(tmp_path / "portfolio-20260301.csv", rows=ROWS, seed=11)
    given = {"input": str(tmp_path / "portfolio-*.csv"), "output": str(tmp_path / "out")}
    flow_run = engine.wait_for_end(engine.start(given))
    assert flow_run["state_type"] == "COMPLETED", engine.logs()
    (folder,) = (tmp_path / "out").iterdir()
    report = json.loads((folder / "report.json").read_text())
    rows, checks = report["rows"], report["checks"]
    assert report["state"] == "completed"
    assert pq.read_table(folder / "enriched").num_rows == rows["screened"]
    assert rows["read"] == ROWS == rows["screened"] + rows["quarantined"]
    charged = sandbox.totals()["totals"]["charged"]
    assert float(report["cost"]["total"]) == float(charged) > 0
    assert (folder / "manifest.json").exists()
    names = [run["name"] for run in engine.task_runs(flow_run["id"])]
    asked = {f"check {check.replace('_', ' ')}" for check in checks}
    assert sorted(name.rsplit("-", 1)[0] for name in names) == sorted(STATIONS | asked)
    assert sum(check["distinct"] for check in checks.values()) > 20 * len(names)
    assert "NIGHTSCREEN_API_KEY" not in engine.env
    assert "env" not in engine.deployment("adhoc")["job_variables"]
    pool = engine.api.get("/work_pools/nightscreen").json()
    env = pool["base_job_template"]["variables"]["properties"]["env"]["default"]
    assert env == {"NIGHTSCREEN_API_KEY": "{{ prefect.blocks.secret.nightscreen-api-key }}"}


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
    """Each field has a title, a sentence and a default; choices are lists to pick from.

    What prefect.yaml fills in is valid, so that a night does not fail at its first line.
    """
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
    for name in ("nightly", "adhoc"):
        given = engine.deployment(name)["parameters"]["parameters"]
        assert ScreenBatch.model_validate(given).max_spend == "250000"
