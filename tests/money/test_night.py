"""What moves the wallet beside a night's own calls: told apart from what was paid, to the naira."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from tests.money.service_in_memory import Bureau


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
