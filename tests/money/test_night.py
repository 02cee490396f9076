"""A bad night, short: report, journal and ledger agree to the naira."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import TYPE_CHECKING

from tests.money.night import spend_night
from tests.money.service_in_memory import Bureau

if TYPE_CHECKING:
    from pathlib import Path

    from nightscreen.calling.asking import Asking


def test_report_journal_and_ledger_agree_after_a_bad_night(tmp_path: Path) -> None:
    """Half of all calls fail, in ten ways; every naira is known or explained."""
    night = spend_night(tmp_path, rows=120, scenario="flaky", wallet={})
    assert night.faults() == []
    assert Decimal(night.report["balance"]["drift"]) == 0
    assert Decimal(night.report["balance"]["explained_in_doubt"]) > 0


def test_another_consumer_of_the_wallet_is_drift(tmp_path: Path) -> None:
    """What somebody else takes is told apart from what we paid."""
    wallet = {"drain_every": {"calls": 40, "amount": "7"}}
    night = spend_night(tmp_path, rows=120, scenario="calm", wallet=wallet)
    assert night.faults() == []
    drained = Decimal(night.wallet["drained"])
    assert Decimal(night.report["balance"]["drift"]) == drained > 0


def test_a_top_up_in_mid_run_is_negative_drift(tmp_path: Path) -> None:
    """Money paid in shows, and the books stay exact."""
    bureau = Bureau(tmp_path, rows=80)

    async def top_up(_: Asking) -> None:
        await asyncio.sleep(10)
        bureau.service.wallet += 5000

    report = bureau.night(steer=top_up).report
    balance = report["balance"]
    assert Decimal(balance["drift"]) == -5000
    assert balance["exact"]
    assert Decimal(report["cost"]["total"]) == bureau.service.charged
