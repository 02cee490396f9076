"""Prices that are not the list's: an odd cost blocks nothing, one call at most passes a cap."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from nightscreen.sandbox.batch import make_batch
from nightscreen.storage.journal import open_journal
from nightscreen.storage.journal.verify import verify_journal
from tests.money.service_in_memory import PRICES, Bureau

if TYPE_CHECKING:
    from pathlib import Path


def sound(bureau: Bureau) -> bool:
    """Return whether counters and calls agree."""
    with open_journal(bureau.below / "home", clock=bureau.loop.micros) as journal:
        return verify_journal(journal) == []


def odd_costs(bureau: Bureau, cost: int, number: int) -> None:
    """Let the first charged answers after the twentieth call name another cost."""
    left = [number]

    def meta(charged: int, balance: int) -> dict[str, int]:
        odd = charged and left[0] and len(bureau.service.ledger) > 20
        left[0] -= bool(odd)
        return {"cost": cost if odd else charged, "balance": balance}

    bureau.service.meta = meta


def test_one_absurd_cost_is_reported_and_blocks_nothing(tmp_path: Path) -> None:
    """It counts as spent as the service says; the next night goes on under its cap."""
    bureau = Bureau(tmp_path, rows=60)
    odd_costs(bureau, 2_500_000, 1)
    report = bureau.night().report
    assert report["state"] == "completed"
    assert Decimal(report["cost"]["total"]) > 2_500_000
    assert any("2,500,000" in notice and "believed" in notice for notice in report["notices"])
    assert sound(bureau)
    before = bureau.service.charged
    make_batch(bureau.below / "in.csv", rows=60, seed=10, damage_pct=0)
    again = bureau.night(max_spend="500").report
    assert again["stop_reason"] == "budget"
    assert 450 < bureau.service.charged - before <= 500


def test_a_second_absurd_cost_stops_its_check_and_names_the_price_list(tmp_path: Path) -> None:
    """The other checks go through; with the list corrected the run ends the work."""
    bureau = Bureau(tmp_path, rows=60)
    service = bureau.service
    service.prices = {**PRICES, "ecosystem": 501}
    report = bureau.night().report
    assert (report["state"], report["stop_reason"]) == ("stopped", "auth")
    assert report["checks"]["ecosystem"]["pending"] > 0
    assert report["checks"]["bank_account"]["pending"] == report["checks"]["karma"]["pending"] == 0
    assert any("prices.toml" in notice for notice in report["notices"])
    assert Decimal(report["cost"]["total"]) == service.charged
    assert sound(bureau)
    service.prices = PRICES
    assert bureau.night(run=report["run_id"]).report["state"] == "completed"


def test_costs_that_no_counter_could_hold_are_in_doubt(tmp_path: Path) -> None:
    """Whatever is named, sums stay whole numbers and the journal is sound."""
    for cost in (9_999_999, 10_000_001, 999_999_999_999, 10**30):
        bureau = Bureau(tmp_path / str(cost), rows=40)
        bureau.below.mkdir()
        odd_costs(bureau, cost, 1000)
        report = bureau.night().report
        assert report["stop_reason"] == "auth"
        assert sound(bureau)
        assert Decimal(report["cost"]["total"]) < 10**9


def test_a_stale_list_lets_one_call_pass_the_cap(tmp_path: Path) -> None:
    """List 10, real price 100, cap 200: 380 was charged once."""
    for cap in (60, 200, 1000):
        bureau = Bureau(tmp_path / str(cap), rows=80)
        bureau.below.mkdir()
        bureau.service.prices = {name: 10 * price for name, price in PRICES.items()}
        report = bureau.night(max_spend=str(cap)).report
        assert report["stop_reason"] == "budget"
        over = max(0, bureau.service.charged - cap)
        assert over <= 9 * max(PRICES.values())
        assert cap > 500 or over == Decimal(report["cost"]["over_cap"])
        charged = [cost for _, _, cost in bureau.service.ledger if cost]
        assert sum(charged[:-1]) <= cap
        assert sound(bureau)
