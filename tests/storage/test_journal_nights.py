"""Whole nights with the journal on PostgreSQL: the same promises, by the same code."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from nightscreen.journal import open_journal
from nightscreen.journal.verify import verify_journal
from nightscreen.sandbox.faults import FaultPlan
from tests.screening import CONSENT, World, customer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.postgres


@pytest.fixture
def world(tmp_path: Path, schema_url: str) -> World:
    """Return a sandbox and a HOME whose journal is on PostgreSQL."""
    return World(tmp_path, settings={"journal_url": schema_url, "tolerated_failure_pct": 100})


def test_report_journal_and_ledger_agree_after_a_bad_night(world: World, schema_url: str) -> None:
    """Lost answers, refusals and faults: what was charged is known or named in doubt."""
    rates = {"http_500_after_charge": 0.05, "http_500": 0.03, "http_503": 0.03}
    world.sandbox.faults = FaultPlan(3, {"all": rates})
    report = world.screen([customer(number, **CONSENT) for number in range(1, 61)]).report
    cost, balance = Decimal(report["cost"]["total"]), report["balance"]
    assert cost + Decimal(balance["explained_in_doubt"]) == Decimal(world.charged)
    assert balance["drift"] == "0.00"
    with open_journal(world.folder / "home", url=schema_url) as journal:
        assert verify_journal(journal) == []


def test_a_capped_run_goes_on_and_a_second_night_pays_nothing(world: World) -> None:
    """Caps, resuming and reuse hold on PostgreSQL as they do on SQLite."""
    rows = [customer(number, **CONSENT) for number in range(1, 31)]
    first = world.screen(rows, max_spend="150")
    assert first.report["stop_reason"] == "budget"
    assert Decimal(world.charged) <= 150
    whole = world.screen(run=first.report["run_id"], max_spend="100000")
    assert whole.report["state"] == "completed"
    assert Decimal(whole.report["cost"]["total"]) == Decimal(world.charged)
    calls = len(world.calls())
    assert world.screen(rows).report["cost"]["total"] == "0.00"
    assert len(world.calls()) == calls
