"""The table of magic identifiers: complete, well-formed and documented."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightscreen.sandbox import test_identifiers
from nightscreen.sandbox.banks import is_right_account
from nightscreen.sandbox.behaviour_flags import described
from nightscreen.sandbox.faults import FAULTS
from nightscreen.sandbox.people import (
    account_of,
    ecosystem_of,
    identity_kind,
    karma_of,
    person_of_bvn,
)

DOCUMENT = Path(__file__).parents[2] / "docs" / "sandbox.md"


def test_every_fault_has_a_row() -> None:
    """Each fault can be had by an identifier."""
    assert {row.fault for row in test_identifiers.TABLE if row.fault} == set(FAULTS)


@pytest.mark.parametrize("row", test_identifiers.TABLE, ids=lambda row: row.word)
def test_identifiers_are_well_formed_and_lead_back(row: test_identifiers.MagicPerson) -> None:
    """Every identifier of a row passes a client's checks and is recognised as that row."""
    assert identity_kind(row.bvn) == "bvn"
    assert identity_kind(row.phone) == "phone"
    assert identity_kind(row.email) == "email"
    assert identity_kind(row.domain) == "domain"
    assert is_right_account(test_identifiers.BANK_CODE, row.account_number)
    nuban = f"{test_identifiers.BANK_CODE}-{row.account_number}"
    identities = (row.bvn, row.phone, row.email, row.domain, nuban)
    assert [test_identifiers.by_karma_identity(one) for one in identities] == [row] * 5
    person = person_of_bvn(row.bvn)
    assert person.phone == row.phone
    assert person.email == row.email
    assert person.account == (test_identifiers.BANK_CODE, row.account_number)


@pytest.mark.parametrize("row", test_identifiers.TABLE, ids=lambda row: row.word)
def test_outcomes_are_as_the_row_says(row: test_identifiers.MagicPerson) -> None:
    """Blacklist, account and history answer what the row promises."""
    assert all(
        (karma_of(one) is not None) == row.listed
        for one in (row.bvn, row.phone, row.email, row.domain)
    )
    account = account_of(test_identifiers.BANK_CODE, row.account_number, masked=False)
    expected = {"own": True, "other": False, "missing": None}[row.account]
    assert (account["bvn"] == row.bvn if account else None) is expected
    record = ecosystem_of(row.bvn)
    past_due = None if record is None else bool(record["past_due_loans"])
    assert past_due is {"good": False, "bad": True, "none": None}[row.history]


def test_document_holds_the_tables() -> None:
    """docs/sandbox.md shows every row and every switch, each table whole and in order."""
    text = DOCUMENT.read_text(encoding="utf-8")
    people = [
        (row.word, row.meaning, row.bvn, row.account_number, row.phone)
        for row in test_identifiers.TABLE
    ]
    customers = [(row.word, row.meaning) for row in test_identifiers.CUSTOMERS]
    for rows in (people, customers, described()):
        assert "| --- |\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows) in text
