"""Whole nights with the journal on PostgreSQL: the same promises, by the same code."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from tests.screening import CONSENT, World, customer

pytestmark = pytest.mark.postgres


@pytest.fixture
def world(tmp_path: Path, schema_url: str) -> World:
    """Return a sandbox and a HOME whose journal is on PostgreSQL."""
    return World(tmp_path, settings={"journal_url": schema_url, "tolerated_failure_pct": 100})


def test_a_capped_run_goes_on_and_a_second_night_pays_nothing(world: World) -> None:
    """Caps, resuming and reuse hold on PostgreSQL as they do on SQLite."""
    rows = [customer(number, **CONSENT) for number in range(1, 13)]
    first = world.screen(rows, max_spend="60")
    assert first.report["stop_reason"] == "budget"
    assert Decimal(world.charged) <= 60
    whole = world.screen(run=first.report["run_id"], max_spend="100000")
    assert whole.report["state"] == "completed"
    assert Decimal(whole.report["cost"]["total"]) == Decimal(world.charged)
    calls = len(world.calls())
    assert world.screen(rows).report["cost"]["total"] == "0.00"
    assert len(world.calls()) == calls
