"""A pull in a real engine: a task for each step, nobody's data, a good end when it is stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from nightscreen.journal import open_journal
from nightscreen.sandbox.process import SandboxProcess
from nightscreen.sandbox.transactions import transactions_of
from tests.flows.conftest import API_KEY
from tests.flows.engine_in_a_test import Engine
from tests.flows.test_what_prefect_keeps import leaks
from tests.operations.pulls_in_a_test import consent_at

pytestmark = [pytest.mark.engine, pytest.mark.long]

NUMBER = 40


def consent(home: Path, sandbox: SandboxProcess, number: int = NUMBER) -> list[str]:
    """Let customers consent without a browser; return their ids."""
    customers = [f"Kund-Zqx{place:04d}" for place in range(number)]
    with open_journal(home) as journal:
        consent_at(sandbox, journal, customers)
    return customers


def typed(output: Path) -> list[dict[str, Any]]:
    paths = sorted((output / "transactions").glob("*/*.parquet"))
    return [row for path in paths for row in pq.read_table(path).to_pylist()]


def secrets(sandbox: SandboxProcess) -> set[str]:
    """Return every code and token the sandbox ever issued."""
    shown = sandbox.get("/_sandbox/secrets")
    return {each for kind in shown.values() for each in kind}


def accounts(customers: list[str]) -> set[str]:
    return {str(each["account_number"]) for name in customers for each in transactions_of(name)}


def test_deployed_pull_keeps_everything_and_shows_nobody(
    engine: Engine, sandbox: SandboxProcess, nightscreen_home: Path, tmp_path: Path
) -> None:
    """On a worker: all is pulled, and neither engine nor outputs show a token or an account."""
    sandbox.post("/_sandbox/latency", {"kind": "none"})
    customers = consent(nightscreen_home, sandbox)
    sandbox.post("/_sandbox/tokens", {"action": "expire"})
    output = tmp_path / "out"
    asked = {"output": str(output)}
    flow_run = engine.wait_for_end(engine.start_deployment("pull-transactions/transactions", asked))
    assert flow_run["state_type"] == "COMPLETED", engine.logs()
    rows = typed(output)
    assert len(rows) == sum(len(transactions_of(each)) for each in customers)
    names = [run["name"] for run in engine.task_runs(flow_run["id"])]
    stations = sorted(name.rsplit("-", 1)[0] for name in names)
    assert stations == ["ask for aggregator_transactions", "report", "take in"]
    marked = secrets(sandbox) | accounts(customers) | {each.lower() for each in customers}
    assert len(marked) > 3 * NUMBER
    assert leaks(engine.home, {str(output).lower()}), "the search itself finds what is there"
    assert leaks(engine.home, marked | {API_KEY}) == set()
    permitted = ("transactions/", "cashflow.parquet", "quarantine.csv")
    for root in (output, nightscreen_home):
        for path in (each for each in root.rglob("*") if each.is_file()):
            if any(each in path.as_posix() for each in permitted):
                continue
            content = path.read_bytes().lower()
            if path.suffix == ".parquet":
                content += str(pq.read_table(path).to_pylist()).lower().encode()
            assert not [each for each in marked if each.lower().encode() in content], path
    for path in (output / "transactions").rglob("*.parquet"):
        said = str(pq.read_table(path).to_pylist())
        assert not [each for each in secrets(sandbox) if each in said]
