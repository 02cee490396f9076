"""Magic identifiers: each does what its row says, and docs/sandbox.md shows them all."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from nightscreen.sandbox import test_identifiers
from nightscreen.sandbox.faults import FAULTS, BehaviourFlags
from nightscreen.sandbox.people import (
    account_of,
    ecosystem_of,
    karma_of,
    person_of_bvn,
)
from nightscreen.sandbox.test_identifiers import by_customer, by_word

DOCUMENT = Path(__file__).parents[2] / "docs" / "sandbox.md"


@pytest.mark.parametrize("row", test_identifiers.TABLE, ids=lambda row: row.word)
def test_magic_identifiers_lead_back_and_do_what_their_row_says(
    row: test_identifiers.MagicPerson,
) -> None:
    """Blacklist, account and history answer what the row promises, by every identifier."""
    place = (test_identifiers.BANK_CODE, row.account_number)
    identities = (row.bvn, row.phone, row.email, row.domain, "-".join(place))
    assert [test_identifiers.by_karma_identity(one) for one in identities] == [row] * 5
    assert {karma_of(one) is not None for one in identities} == {row.listed}
    person = person_of_bvn(row.bvn)
    assert (person.phone, person.email, person.account) == (row.phone, row.email, place)
    account = account_of(*place, masked=False)
    expected = {"own": True, "other": False, "missing": None}[row.account]
    assert (account["bvn"] == row.bvn if account else None) is expected
    record = ecosystem_of(row.bvn)
    past_due = None if record is None else bool(record["past_due_loans"])
    assert past_due is {"good": False, "bad": True, "none": None}[row.history]


def test_magic_tables_are_whole_and_documented() -> None:
    """Every fault has a row; docs/sandbox.md shows every row and switch, in order."""
    assert {row.fault for row in test_identifiers.TABLE if row.fault} == set(FAULTS)
    assert all(by_customer(row.email) is row for row in test_identifiers.CUSTOMERS)
    assert (
        by_customer(by_word("http-502").email).fault_at("aggregator_transactions", 9) == "http_502"
    )
    for name in ("ada", "clear@magic.example", "finish-in-doubt@magic.example"):
        assert not by_customer(name).fault_at("aggregator_transactions", 1)
    shown = tables()
    table = next(table for table in shown if table[0][0] == "missing_key_text")
    flags = BehaviourFlags.model_fields
    assert [row[:2] for row in table] == [[name, str(flags[name].default)] for name in flags]
    for name, _default, meaning in table:
        assert all(word in meaning for word in map(str, get_args(flags[name].annotation)))
    people = [[row.word, row.bvn, row.account_number, row.phone] for row in test_identifiers.TABLE]
    customers = [[row.word] for row in test_identifiers.CUSTOMERS]
    for rows in (people, customers):
        assert rows in [[[row[0], *row[2:]] for row in table if row[1]] for table in shown]


def tables() -> list[list[list[str]]]:
    """Return the cells of every table of docs/sandbox.md, without its headings."""
    found: list[list[list[str]]] = []
    before = ""
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        if line.startswith("| --- |"):
            found.append([])
        elif line.startswith("| ") and before.startswith("|") and found:
            found[-1].append([cell.strip() for cell in line.strip("| ").split(" | ")])
        before = line
    return found
