"""Pulls of linked accounts: balances typed, profiles where granted, and figures made of them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from nightscreen.journal.consents import live_figures
from nightscreen.sandbox.transactions import bank_accounts_of, profile_of
from tests.operations.pulls_in_a_test import LIST, Lender, username

ACCOUNTS, PROFILE = "bank_account:list", "profile:view"


@pytest.fixture
def lender(tmp_path: Path) -> Lender:
    return Lender(tmp_path)


def live_run(lender: Lender, customer_id: str) -> str | None:
    """Return which pull's figures may be shown of a customer."""
    with lender.consents() as consents:
        customer = consents.customer(customer_id)
        found = live_figures(consents.journal, [customer]).get(customer)
    return None if found is None else found.run_id


def test_every_account_is_typed_with_balance_time_and_source(lender: Lender) -> None:
    """Each linked account becomes a row, its money exact; the profile comes where granted."""
    lender.consent(["C1"], ACCOUNTS)
    lender.consent(["C2"], ACCOUNTS, PROFILE)
    report = lender.pull_accounts()
    assert report["state"] == "completed"
    assert report["customers"]["pulled"] == 2
    rows = lender.typed(report["run_id"], "accounts")
    shown = {
        (customer, one["account_number"]): one
        for customer in ("C1", "C2")
        for one in bank_accounts_of(username(customer))
    }
    assert {(row["customer_id"], row["account_number"]) for row in rows} == set(shown)
    for row in rows:
        one = shown[row["customer_id"], row["account_number"]]
        assert row["balance"] == Decimal(str(one["balance"]))
        assert row["data_source"] == one["data_source"]
        assert row["last_balance_time"].isoformat()[:19] == str(one["last_balance_time"])[:19]
        assert (row["change"], row["extra"]) == ("added", None)
    assert report["accounts"]["written"] == len(rows)
    (profile,) = lender.typed(report["run_id"], "profiles")
    assert profile["customer_id"] == "C2"
    assert profile["phone_number"] == profile_of(username("C2"))["phone_number"]
    assert lender.count("C1", "refused_scopes") == 0


def test_each_pull_writes_how_accounts_stand(lender: Lender) -> None:
    """A pull that finds nothing new still shows the balances; one that does says so.

    A service that refuses the profile leaves the accounts kept, and a notice.
    """
    lender.consent(["C1"], ACCOUNTS, PROFILE)
    lender.sandbox.grants._grants[-1].scopes = (ACCOUNTS,)
    report = lender.pull_accounts()
    assert report["customers"]["pulled"] == 1
    assert (report["accounts"]["written"] >= 1, report["profiles"]["written"]) == (True, 0)
    assert any("profiles were not answered" in notice for notice in report["notices"])
    again = lender.pull_accounts()
    assert {row["change"] for row in lender.typed(again["run_id"], "accounts")} == {"unchanged"}
    assert again["changes"]["modified"] == 0
    lender.sandbox.day = 25
    later = lender.pull_accounts()
    rows = lender.typed(later["run_id"], "accounts")
    assert later["changes"]["modified"] >= 1
    shown = {one["account_number"]: one for one in bank_accounts_of(username("C1"), 25)}
    assert {row["account_number"]: str(row["balance"]) for row in rows} == {
        number: f"{Decimal(str(one['balance'])):.6f}" for number, one in shown.items()
    }


def test_current_balance_is_that_of_the_linked_accounts(lender: Lender) -> None:
    """Figures take the balance from accounts pulled before, and are made anew when they come."""
    lender.consent(["C1"], LIST, ACCOUNTS)
    lender.consent(["C2"], LIST)
    lender.pull()
    accounts = lender.pull_accounts()
    whole = sum(Decimal(str(one["balance"])) for one in bank_accounts_of(username("C1")))
    assert {
        name: row["tx_balance_current"] for name, row in lender.figures(accounts["run_id"]).items()
    } == {"C1": whole}
    assert live_run(lender, "C1") == accounts["run_id"]
    after = lender.pull()
    assert lender.figures(after["run_id"])["C1"]["tx_balance_current"] == whole
    assert live_run(lender, "C1") == after["run_id"]
