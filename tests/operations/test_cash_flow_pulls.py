"""Cash flow of pulls: a row for each customer who consents, kept, shown and forgotten."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from pathlib import Path

import pytest

from nightscreen.cli.people import explain
from nightscreen.files.outputs import CASHFLOW_FILE
from nightscreen.journal.consents import live_figures
from nightscreen.journal.verify import verify_journal
from nightscreen.schemas.enriched import figure_values
from nightscreen.schemas.errors import InputError
from tests.operations.pulls_in_a_test import Lender, held_of


@pytest.fixture
def lender(tmp_path: Path) -> Lender:
    found = Lender(tmp_path)
    found.consent(["C1", "C2"])
    return found


def test_a_pull_leaves_one_row_a_customer(lender: Lender) -> None:
    report = lender.pull()
    rows = lender.figures(report["run_id"])
    assert sorted(rows) == ["C1", "C2"]
    assert rows["C1"]["tx_months"] >= 1
    assert rows["C1"]["tx_outflow_monthly"] > 0
    manifest = json.loads((lender.folder / "out" / report["run_id"] / "manifest.json").read_text())
    assert manifest["files"][CASHFLOW_FILE]["rows"] == 2
    with lender.consents() as consents:
        (kept,) = live_figures(consents.journal, [consents.customer("C1")]).values()
        values = figure_values(kept)
        assert values == {name: rows["C1"][name] for name in values}
        assert isinstance(values["tx_inflow_monthly"], Decimal)
        assert verify_journal(consents.journal) == []


def test_who_consents_no_more_has_no_row(lender: Lender) -> None:
    pull = lender.open()
    asyncio.run(lender.ask(pull))
    pull.consents.revoke("C1", "taken back")
    report = pull.close()
    pull.run.close()
    assert sorted(lender.figures(report["run_id"])) == ["C2"]
    with lender.opened() as journal:
        assert held_of(journal, "C1")["cash_flow"] == []


def test_explain_says_which_rules_took_what(
    lender: Lender, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Figures and rules of a customer who was pulled and never screened; no narration, no name."""
    lender.pull()
    monkeypatch.setenv("NIGHTSCREEN_HOME", str(lender.folder / "home"))
    explain(customer_id="C1", batch="", as_json=True)
    said = capsys.readouterr().out
    flow = json.loads(said)["cash_flow"]
    rules = {each["rule"] for each in flow["rules"]}
    assert {"airtime and data", "cash and agents"} <= rules
    assert flow["figures"]["tx_months"] >= 1
    narrations = {row["narration"] for row in lender.typed()} - {"SMS CHARGE"}  # a rule's own words
    assert narrations
    assert not [each for each in narrations if each in said]
    explain(customer_id="C1", batch="")
    assert "airtime and data" in capsys.readouterr().out
    with lender.consents() as consents:
        consents.revoke("C1", "taken back")
    with pytest.raises(InputError, match="no such customer"):
        explain(customer_id="C1", batch="", as_json=True)
