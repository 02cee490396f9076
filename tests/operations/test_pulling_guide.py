"""The guide to transactions: its code runs as it stands, and gives what the service lists."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from nightscreen.sandbox.transactions import transactions_of
from tests.operations.pulls_in_a_test import Lender, username
from tests.screening import World, customer

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "transactions.md"
CUSTOMERS = ("C1", "C2", "C3")


def test_guide_gives_the_current_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After three days, and beside a screening run, the frames hold what the sandbox lists."""
    monkeypatch.setattr("nightscreen.operations.pull.write_cash_flow", lambda *_: None)
    World(tmp_path).screen([customer(1)])
    lender = Lender(tmp_path)
    lender.consent(CUSTOMERS)
    for day in (0, 2, 5):
        lender.sandbox.day = day
        lender.pull()
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 3
    named: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, GUIDE.name, "exec"), named)  # noqa: S102 - our own guide
    expected = {
        str(record["id"]): record
        for each in CUSTOMERS
        for record in transactions_of(username(each), 5)
    }
    current = named["current"].set_index("transaction_id")
    assert set(current.index) == set(expected)
    assert current.index.is_unique
    assert all(current.loc[id_, "status"] == each["status"] for id_, each in expected.items())
    credits_ = sum(
        Decimal(str(each["amount"])) for each in expected.values() if each["entry_type"] == "credit"
    )
    assert named["cash"]["credit"].sum() == credits_
    assert set(named["statement"]["customer_id"]) == {named["customer"]}
