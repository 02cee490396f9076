"""A pull in a real engine: a task for each step, nobody's data, a good end when it is stopped."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from nightscreen.journal import open_journal
from nightscreen.sandbox.process import SandboxProcess
from nightscreen.sandbox.transactions import transactions_of
from tests.flows.conftest import API_KEY
from tests.flows.engine_in_a_test import Engine
from tests.flows.test_what_prefect_keeps import leaks
from tests.left_behind import content
from tests.operations.pulls_in_a_test import consent_at
from tests.privacy.search import Search

pytestmark = [pytest.mark.engine, pytest.mark.long]

NUMBER = 40


def test_deployed_pull_keeps_everything_and_shows_nobody(
    engine: Engine, sandbox: SandboxProcess, nightscreen_home: Path, tmp_path: Path
) -> None:
    """On a worker: all is pulled, and neither engine nor outputs show a token or an account."""
    sandbox.post("/_sandbox/latency", {"kind": "none"})
    customers = [f"Kund-Zqx{place:04d}" for place in range(NUMBER)]
    with open_journal(nightscreen_home) as journal:
        consent_at(sandbox, journal, customers)
    sandbox.post("/_sandbox/tokens", {"action": "expire"})
    output = tmp_path / "out"
    asked = {"output": str(output)}
    flow_run = engine.wait_for_end(engine.start_deployment("pull-transactions/transactions", asked))
    assert flow_run["state_type"] == "COMPLETED", engine.logs()
    pulled = sum(pq.read_table(path).num_rows for path in output.glob("transactions/*/*.parquet"))
    assert pulled == sum(len(transactions_of(each)) for each in customers)
    names = [run["name"] for run in engine.task_runs(flow_run["id"])]
    stations = sorted(name.rsplit("-", 1)[0] for name in names)
    assert stations == ["ask for aggregator_transactions", "report", "take in"]
    shown = sandbox.get("/_sandbox/secrets")
    issued = {each for kind in shown.values() for each in kind}  # codes and tokens, all of them
    accounts = {str(row["account_number"]) for each in customers for row in transactions_of(each)}
    marked = issued | accounts | {*customers}
    assert len(marked) > 3 * NUMBER
    assert leaks(engine.home, [str(output)]), "the search itself finds what is there"
    assert leaks(engine.home, marked | {API_KEY}) == set()
    permitted = ("transactions/", "cashflow.parquet", "quarantine.csv")
    everything, tokens = Search(marked), Search(issued)
    for root in (output, nightscreen_home):
        for path in (each for each in root.rglob("*") if each.is_file()):
            is_permitted = any(each in path.as_posix() for each in permitted)
            search = tokens if is_permitted else everything
            assert not search.found_in(content(path)), path
