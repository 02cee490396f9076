"""Prices that differ from the list: an odd cost blocks nothing, at most one call exceeds a cap."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from nightscreen.report.page import report_page
from nightscreen.sandbox.batch import make_batch
from tests.client.fakes import Canned
from tests.money.service_in_memory import PRICES, Bureau, Service


def odd_answer(bureau: Bureau, operation: str, cost: int, *, taken: bool = False) -> None:
    """Let one answer of an operation state another cost, which the wallet loses if `taken`."""
    service, left = bureau.service, [1]

    def odd(asked: str) -> bool:
        is_next = asked == operation and left[0] and len(service.ledger) >= 20
        left[0] -= bool(is_next)
        return bool(is_next)

    def rewrite(asked: str, _: str, document: dict[str, Any]) -> Canned | None:
        if asked == "karma" or not odd(asked):
            return None
        if taken:
            more = cost - document["meta"]["cost"]
            service.wallet -= more
            service.ledger.append((asked, "", more))
        meta = service.meta(cost, service.wallet)
        return Canned(200, {**document, "meta": meta})

    def miss(asked: str, *_: object) -> Canned | None:
        if asked != "karma" or not odd(asked):
            return None
        meta = service.meta(cost, service.wallet)
        text = "Identity not found in karma"
        return Canned(404, {"status": "success", "message": text, "meta": meta})

    service.rewrite, service.after = rewrite, miss


@pytest.mark.parametrize(
    ("operation", "cost"),
    [("karma", 2_500_000), pytest.param("ecosystem", 999_999_999_999, marks=pytest.mark.long)],
)
def test_a_cost_that_a_balance_contradicts_blocks_neither_night_nor_month(
    tmp_path: Path, operation: str, cost: int
) -> None:
    """It counts at the believed price, so that report, journal and ledger agree; it is listed."""
    caps = {"monthly_spend_cap": "1500"}
    bureau = Bureau(tmp_path, rows=60, settings=caps)
    odd_answer(bureau, operation, cost)
    report = bureau.night(max_spend="1400").report
    assert (report["state"], report["stop_reason"]) == ("completed", None)
    assert Decimal(report["cost"]["total"]) == bureau.service.charged
    (named,) = report["cost"]["disputed"]
    assert (named["check"], named["state"]) == (operation, "disproved")
    assert Decimal(named["named"]) == min(cost, 10_000_000)
    assert f"{min(cost, 10_000_000):,}.00" in report_page(report)
    assert Decimal(named["counted"]) == (PRICES[operation] if operation != "karma" else 0)
    before = bureau.service.charged
    make_batch(bureau.folder / "in.csv", rows=60, seed=10, damage_pct=0)
    again = bureau.night().report
    assert again["stop_reason"] == "budget"
    assert 1450 < bureau.service.charged <= 1500
    assert bureau.service.charged > before


def test_a_cost_that_the_wallet_did_lose_counts_in_full(tmp_path: Path) -> None:
    """The next balance confirms it; then no call is sent beyond the cap."""
    bureau = Bureau(tmp_path, rows=60, service=Service(wallet=9_000_000))
    odd_answer(bureau, "ecosystem", 2_500_000, taken=True)
    report = bureau.night(max_spend="1400").report
    assert report["stop_reason"] == "budget"
    lost = 9_000_000 - bureau.service.wallet
    assert Decimal(report["cost"]["total"]) == lost
    (named,) = report["cost"]["disputed"]
    assert (named["state"], Decimal(named["counted"])) == ("confirmed", Decimal(2_500_000))
    assert sum(report["checks"][check]["pending"] for check in PRICES) > 0


def test_a_stale_list_lets_one_call_pass_the_cap(tmp_path: Path) -> None:
    """List 10, real price 100, cap 200: 380 was charged once."""
    cap = 200
    bureau = Bureau(tmp_path, rows=40)
    bureau.service.prices = {name: 10 * price for name, price in PRICES.items()}
    report = bureau.night(max_spend=str(cap)).report
    assert report["stop_reason"] == "budget"
    over = max(0, bureau.service.charged - cap)
    assert over <= 9 * max(PRICES.values())
    assert over == Decimal(report["cost"]["over_cap"])
    charged = [cost for _, _, cost in bureau.service.ledger if cost]
    assert sum(charged[:-1]) <= cap


def test_a_price_that_rises_in_flight_passes_the_cap_by_what_is_under_way(tmp_path: Path) -> None:
    """At most by the rise times the calls in flight; then the higher price is reserved."""
    bureau = Bureau(tmp_path, rows=120)
    risen, under_way = {**PRICES, "bank_account": 17}, 4

    def before(*asked: Any) -> None:  # noqa: ANN401 - arguments of a fault
        if asked[2] == 40:
            bureau.service.prices = risen

    bureau.service.before = before
    report = bureau.night(max_spend="1000").report
    assert report["stop_reason"] == "budget"
    assert bureau.service.charged - 1000 <= (17 - 10) * under_way
    assert report["cost"]["price_rises"]
    assert any("bank_account rose from ₦10.00 to ₦17.00" in each for each in report["notices"])
