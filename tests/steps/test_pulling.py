"""Pulling transactions: what a pull keeps, tells and leaves alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox.transactions import changes_between, transactions_of
from tests.steps.pulls_in_a_test import Lender, username

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def lender(tmp_path: Path) -> Lender:
    """A lender with nobody's consent yet."""
    return Lender(tmp_path)


def ids(records: object) -> list[str]:
    """Return the ids of a list of the sandbox, in order."""
    return sorted(str(each["id"]) for each in records)  # type: ignore[attr-defined]


def test_every_transaction_is_there_once_and_typed(lender: Lender) -> None:
    """What the sandbox lists stands in the output, each once, money exact and times in UTC."""
    lender.consent(["C1", "C2"])
    report = lender.pull()
    expected = {each: transactions_of(username(each)) for each in ("C1", "C2")}
    assert (report["state"], report["customers"]["pulled"]) == ("completed", 2)
    typed = lender.typed(report["run_id"])
    for customer, records in expected.items():
        mine = {row["transaction_id"]: row for row in typed if row["customer_id"] == customer}
        assert len(mine) == len(records)
        for record in records:
            row = mine[str(record["id"])]
            assert str(row["amount"]) == f"{record['amount']}0000"
            assert row["transaction_date"].isoformat()[:23] == str(record["transaction_date"])[:-1]
            assert row["bank_short_code"] == record["bank"]["short_code"]  # type: ignore[index]
    assert report["rows"]["read"] == sum(map(len, expected.values())) == len(typed)
    assert report["changes"]["added"] == len(typed)


def test_pulling_twice_writes_nothing_new(lender: Lender) -> None:
    """The second pull of an unchanged day tells no change and writes no part."""
    lender.consent(["C1"])
    lender.pull()
    again = lender.pull()
    assert again["changes"] == dict.fromkeys(again["changes"], 0)
    assert again["transactions"] == {"written": 0, "file": None, "repeated": 0}
    assert lender.changes(again["run_id"]) == []
    assert len(list((lender.folder / "out" / "transactions").glob("*/*.parquet"))) == 1


def test_days_are_told_exactly_as_the_sandbox_made_them(lender: Lender) -> None:
    """Added, modified and removed of three days, to the last record."""
    customers = [f"C{number}" for number in range(20)]
    lender.consent(customers)
    lender.pull()
    told_in_all = 0
    for day in (1, 2, 3):
        lender.sandbox.day = day
        report = lender.pull()
        told = lender.changes(report["run_id"])
        typed = {row["record_key"]: row for row in lender.typed()}
        for change in ("added", "modified", "removed"):
            expected = [
                each
                for customer in customers
                for each in ids(getattr(changes_between(username(customer), day - 1, day), change))
            ]
            found = [
                typed[row["record_key"]]["transaction_id"]
                for row in told
                if row["change"] == change
            ]
            assert sorted(found) == sorted(expected)
            assert report["changes"][change] == len(expected)
            told_in_all += len(expected)
        assert not report["changes"]["held"]
        assert not report["changes"]["out_of_reach"]
    assert told_in_all > 100
