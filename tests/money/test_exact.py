"""`exact` means exact: random bad nights of the whole line, held against the wallet itself."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.client.fakes import Canned
from tests.how_many import examples
from tests.money.service_in_memory import LOST, Bureau


def charged_502(balance: int) -> Canned:
    """Return an error after the charge, which says what is left."""
    return Canned(502, {"status": "error", "message": "Bad gateway", "meta": {"balance": balance}})


def truthful(report: dict[str, Any], bureau: Bureau) -> bool:
    """Return whether opening and closing are what the wallet held, where they are called exact."""
    balance = report["balance"]
    if not balance["exact"]:
        return True
    first, last = bureau.service.at_first or 0, bureau.service.wallet
    return Decimal(balance["opening"]) == first and Decimal(balance["closing"]) == last


def test_an_opening_charged_and_then_answered_502_is_not_exact(tmp_path: Path) -> None:
    """Its balance is from after a charge that nobody knows of."""
    bureau = Bureau(tmp_path, rows=20, settings={"tolerated_failure_pct": 100})
    service = bureau.service
    service.after = lambda *asked: charged_502(service.wallet) if asked[2] == 0 else None
    report = bureau.night().report
    assert not report["balance"]["exact"]


def test_another_consumer_of_the_wallet_is_drift(tmp_path: Path) -> None:
    """What somebody else takes is told apart from what we paid."""
    bureau, drained = Bureau(tmp_path, rows=60), list[int]()

    def drain(_operation: str, _identity: str, number: int) -> None:
        if number % 40 == 20:
            drained.append(7)
            bureau.service.wallet -= 7

    bureau.service.before = drain
    report = bureau.night().report
    assert Decimal(report["balance"]["drift"]) == sum(drained) > 7
    assert Decimal(report["cost"]["total"]) == bureau.service.charged


def test_answers_without_meta_are_in_doubt_and_no_drift(tmp_path: Path) -> None:
    """What they may have cost is counted once."""
    bureau = Bureau(tmp_path, rows=40)
    service = bureau.service
    untold: list[int] = []

    def meta(cost: int, balance: int) -> dict[str, int] | None:
        if cost and len(service.ledger) >= 20 and len(untold) < 3:
            untold.append(cost)
            return None
        return {"cost": cost, "balance": balance}

    service.meta = meta
    report = bureau.night().report
    balance, exposure = report["balance"], Decimal(report["cost"]["in_doubt_exposure"])
    assert exposure > 0
    assert Decimal(balance["explained_in_doubt"]) == exposure
    assert balance["drift"] == "0.00"
    assert truthful(report, bureau)


@settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(1, 25),
    faults=st.dictionaries(
        st.sampled_from(["lost", "502", "untold", "lags", "drain", "top_up", "cut"]),
        st.sampled_from([0.03, 0.2, 0.6]),
        max_size=4,
    ),
)
def test_exact_is_the_truth_on_any_night(
    seed: int, rows: int, faults: dict[str, float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Lost answers, missing meta, lagging balances, charged errors, other consumers, top-ups."""
    rng = random.Random(seed)
    odd = {"attempts": 3, "tolerated_failure_pct": 100}
    bureau = Bureau(tmp_path_factory.mktemp("night"), rows=rows, settings=odd)
    service = bureau.service

    def happens(fault: str) -> bool:
        return rng.random() < faults.get(fault, 0.0)

    def before(_: str, __: str, number: int) -> Canned | None:
        if number and happens("drain"):
            service.wallet -= 7
        if number and happens("top_up"):
            service.wallet += 4999
        return LOST if happens("cut") else None

    def after(*_: object) -> Canned | None:
        if happens("502"):
            return charged_502(service.wallet)
        return LOST if happens("lost") else None

    def meta(cost: int, balance: int) -> dict[str, int] | None:
        late = cost if happens("lags") else 0
        return None if happens("untold") else {"cost": cost, "balance": balance + late}

    service.before, service.after, service.meta = before, after, meta
    report = bureau.night().report
    assert truthful(report, bureau)
