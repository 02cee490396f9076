"""Transactions of made-up customers: stable, telling, and different from day to day."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightscreen.sandbox import test_identifiers
from nightscreen.sandbox.banks import is_right_account
from nightscreen.sandbox.people import FIRST_DAY, person_of_bvn
from nightscreen.sandbox.transactions import (
    Record,
    bank_accounts_of,
    changes_between,
    person_of_customer,
    transactions_of,
)
from tests.how_many import examples

DAYS = st.integers(0, 40)
PEOPLE = [f"customer-{number}" for number in range(100)]


def by_id(records: list[Record] | tuple[Record, ...]) -> dict[str, Record]:
    """Index records by their id, which none may share."""
    found = {str(one["id"]): one for one in records}
    assert len(found) == len(records)
    return found


@given(customer=st.text(max_size=20), first=DAYS, second=DAYS)
@settings(max_examples=examples(50), deadline=None)
def test_changes_are_what_two_lists_differ_in(customer: str, first: int, second: int) -> None:
    """Added, modified and removed are exactly what comparing the two days by id would find."""
    before, after = sorted((first, second))
    old, new = by_id(transactions_of(customer, before)), by_id(transactions_of(customer, after))
    changes = changes_between(customer, before, after)
    assert by_id(changes.added) == {one: new[one] for one in new if one not in old}
    assert by_id(changes.removed) == {one: old[one] for one in old if one not in new}
    assert by_id(changes.modified) == {
        one: new[one] for one in new if one in old and new[one] != old[one]
    }


@given(customer=st.text(max_size=20), day=DAYS)
@settings(max_examples=examples(30), deadline=None)
def test_records_are_as_seen_in_the_wild(customer: str, day: int) -> None:
    """Ids are UUIDs, money is decimal text, moments have milliseconds, accounts are the owner's."""
    own = {str(one["account_number"]) for one in bank_accounts_of(customer)}
    for record in transactions_of(customer, day):
        assert str(UUID(str(record["id"]))) == record["id"]
        for name in ("amount", "balance"):
            assert isinstance(record[name], str)
            assert Decimal(str(record[name])).as_tuple().exponent == -2
        assert Decimal(str(record["amount"])) > 0
        assert record["entry_type"] in ("credit", "debit")
        for name in ("transaction_date", "created_on", "modified_on"):
            moment = str(record[name])
            assert (len(moment), moment[-1]) == (24, "Z")
            assert datetime.fromisoformat(moment).date() <= FIRST_DAY + timedelta(days=day)
        assert record["account_number"] in own


def test_a_history_has_half_a_year() -> None:
    """On day 0 each customer has about a hundred records; nobody's months are alike."""
    counts = [len(transactions_of(one)) for one in PEOPLE]
    assert min(counts) >= 30
    assert max(counts) <= 250
    assert len(set(counts)) > 10


def test_changes_touch_note_status_and_narration_and_move_the_moment() -> None:
    """A changed record differs in what can change, and its modified_on goes on."""
    touched = set()
    for customer in PEOPLE[:50]:
        old = by_id(transactions_of(customer))
        for record in changes_between(customer, 0, 1).modified:
            before = old[str(record["id"])]
            touched |= {name for name in record if record[name] != before[name]}
            assert str(record["modified_on"]) > str(before["modified_on"])
    assert touched == {"note", "status", "narration", "modified_on"}


def test_some_new_records_bear_an_earlier_date() -> None:
    """A record may come up to three days late, so that a list must be read again."""
    lags = {
        (FIRST_DAY + timedelta(day) - date.fromisoformat(str(one["transaction_date"])[:10])).days
        for customer in PEOPLE
        for day in range(5, 9)
        for one in changes_between(customer, day - 1, day).added
    }
    assert lags == {0, 1, 2, 3}


def test_balances_run_on_from_record_to_record() -> None:
    """In order of appearance each balance is the one before plus or minus the amount."""
    customer, new = next(
        (one, changes.added[0])
        for one in PEOPLE
        if len(bank_accounts_of(one)) == 1
        and len((changes := changes_between(one, 0, 1)).added) == 1
    )
    once = {
        str(one["reference"]): one for one in transactions_of(customer)
    }  # some are listed twice
    old = sorted(once.values(), key=lambda one: str(one["transaction_date"]))
    for earlier, later in pairwise([*old, new]):
        sign = 1 if later["entry_type"] == "credit" else -1
        expected = Decimal(str(earlier["balance"])) + sign * Decimal(str(later["amount"]))
        assert Decimal(str(later["balance"])) == expected


def test_nobody_can_change_a_record_for_others() -> None:
    """Records are handed out as copies."""
    transactions_of("ada")[0]["note"] = "scribble"
    assert all(one["note"] != "scribble" for one in transactions_of("ada"))


def test_customers_are_people_of_the_sandbox() -> None:
    """A username that is a BVN is that person; accounts have right check digits."""
    assert person_of_customer("22123456789") == person_of_bvn("22123456789")
    assert person_of_customer("ada") == person_of_customer("ada") != person_of_customer("bola")
    for customer in PEOPLE[:50]:
        accounts = bank_accounts_of(customer)
        assert 1 <= len(accounts) <= 3
        for account in accounts:
            bank = account["bank"]
            assert isinstance(bank, dict)
            assert is_right_account(str(bank["short_code"]), str(account["account_number"]))


@pytest.mark.parametrize("row", test_identifiers.CUSTOMERS, ids=lambda row: row.word)
def test_magic_customers_lead_back_to_their_rows(row: test_identifiers.MagicCustomer) -> None:
    """Each username of the table is recognised, and does something."""
    assert test_identifiers.by_customer(row.customer) is row
    unusual = (row.screen, row.code, row.refresh, row.dead, row.withheld, row.records, row.fault)
    assert any(unusual)


def test_fault_rows_of_the_other_table_work_too() -> None:
    """Words of the table of faults choose that fault, for data calls."""
    always = test_identifiers.by_customer(test_identifiers.by_word("http-502").email)
    assert always is not None
    assert always.trouble(at_auth=False) == ("http_502", 0)
    assert always.trouble(at_auth=True) is None
    for name in ("ada", "clear@magic.example", "finish-in-doubt@magic.example", "@magic.example"):
        assert test_identifiers.by_customer(name) is None
