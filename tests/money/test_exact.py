"""A balance that is not exact says so; every `Bureau.night` compares exact ones with the wallet."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from tests.client.fakes import Canned
from tests.money.service_in_memory import Bureau


def charged_502(balance: int) -> Canned:
    """Return an error after the charge, with the balance."""
    return Canned(502, {"status": "error", "message": "Bad gateway", "meta": {"balance": balance}})


def test_an_opening_charged_and_then_answered_502_is_not_exact(tmp_path: Path) -> None:
    """Its balance is from after a charge that the run does not know."""
    bureau = Bureau(tmp_path, rows=20, settings={"tolerated_failure_pct": 100})
    service = bureau.service
    service.after = lambda *asked: charged_502(service.wallet) if asked[2] == 0 else None
    report = bureau.night().report
    assert not report["balance"]["exact"]


def test_answers_without_meta_are_in_doubt_and_others_money_is_drift(tmp_path: Path) -> None:
    """Their possible cost is counted once, and money spent by others is not the run's cost."""
    bureau = Bureau(tmp_path, rows=40)
    service = bureau.service
    unknown_costs: list[int] = []
    drained: list[int] = []

    def drain(_operation: str, _identity: str, number: int) -> None:
        if number % 20 == 10:
            drained.append(7)
            service.wallet -= 7

    def meta(cost: int, balance: int) -> dict[str, int] | None:
        if cost and len(service.ledger) >= 20 and len(unknown_costs) < 3:
            unknown_costs.append(cost)
            return None
        return {"cost": cost, "balance": balance}

    service.before, service.meta = drain, meta
    report = bureau.night().report
    balance, exposure = report["balance"], Decimal(report["cost"]["in_doubt_exposure"])
    assert exposure > 0
    assert Decimal(balance["explained_in_doubt"]) == exposure
    assert Decimal(balance["drift"]) == sum(drained) > 7
    assert Decimal(report["cost"]["total"]) == Decimal(bureau.charged) - sum(unknown_costs)
