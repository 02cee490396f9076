"""What one cell means: BVNs, accounts, phones, addresses, images, amounts, dates and times."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import phonenumbers
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightscreen.schemas.columns import Flaw
from nightscreen.schemas.errors import SettingsError
from nightscreen.schemas.rows import NAIRA
from nightscreen.schemas.shipped import DATA, read_rows
from nightscreen.values import issues
from nightscreen.values.addresses import (
    judge_domain,
    judge_email,
    judge_image_url,
)
from nightscreen.values.amounts import judge_amount, judge_amounts, judge_tenor
from nightscreen.values.banks import check_digit, institution_of, judge_account
from nightscreen.values.dates import judge_date, judge_instant
from nightscreen.values.identifiers import judge_bvn, judge_customer_id
from nightscreen.values.issues import Issues, Validated, bare_digits, is_absent, trimmed
from nightscreen.values.phones import judge_phone
from tests.how_many import examples

BVN, PHONE, ACCOUNT = "22123456789", "+2348031234567", "0123456785"
_account = partial(judge_account, institution=institution_of("058"))
_no_bank = partial(judge_account, institution=None)
_start = partial(judge_instant, order=None)
JUDGES: dict[str, Callable[[str], Validated[Any]]] = {
    "bvn": judge_bvn,
    "account": _account,
    "account_without_bank": _no_bank,
    "phone": judge_phone,
    "email": judge_email,
    "domain": judge_domain,
    "image_url": judge_image_url,
    "amount": judge_amount,
    "tenor": judge_tenor,
    "date": partial(judge_date, order=None),
    **{f"date_{order}": partial(judge_date, order=order) for order in ("dmy", "mdy", "ymd")},
    "start": _start,
    "end": partial(judge_instant, order=None, ends=True),
}
TABLE = tomllib.loads(Path(__file__).with_name("cells.toml").read_text("utf-8"))
TABLE["phone"] += [{"kept": True, "said": "phone_malformed", "cells": ["0803" * 60]}]
TABLE["email"] += [
    {"kept": True, "said": "email_malformed", "cells": [f"{'a' * 65}@a.com", f"a@{'a.' * 130}com"]}
]
TABLE["image_url"] += [
    {"kept": True, "said": "image_malformed", "cells": ["https://img.example/" + "a" * 2000]}
]


@dataclass(frozen=True)
class Case:
    """A cell, its rule, the value that it becomes, and the codes of what is said of it."""

    judge: Callable[[str], Validated[Any]]
    cell: str
    value: Any
    said: list[str]
    kept: bool


def cases() -> Iterator[Case]:
    for name, lines in TABLE.items():
        for line in lines:
            addresses = [f"https://{host}/a.jpg" for host in line.get("hosts", ())]
            value, kept = line.get("becomes"), line.get("kept", False)
            if name == "amount" and value is not None:
                value = Decimal(value)
            for cell in (*line.get("cells", ()), *addresses):
                yield Case(
                    JUDGES[name], cell, cell if kept else value, line.get("said", "").split(), kept
                )


_OF_NO_USE = {
    *(judge_bvn, judge_phone, judge_email, judge_domain, judge_image_url),
    *(_account, _no_bank),
}
"""Rules of identifiers: what keeps its text with an issue is of no use, but for a check digit."""


def test_every_issue_of_the_table_is_found_in_a_cell() -> None:
    """No line of data/issues.csv is for nothing; those of banks are found by test_banks."""
    found = {code for case in cases() for code in case.said}
    codes = {row["code"] for row in read_rows(DATA / "issues.csv")}
    assert {code for code in codes - found if not code.startswith("bank_")} == set()


@pytest.mark.parametrize(
    "row", ["bvn_length,wrong,bvn,x", "bvn_length,invalid,bvm,x", "bvn_letters,invalid,bvn,x"]
)
def test_a_mistake_in_the_table_of_issues_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: str
) -> None:
    """A wrong action, a wrong flaw, a missing line: file and code are named."""
    path = tmp_path / "issues.csv"
    path.write_text(f"code,action,flaw,hint\n{row}\n", encoding="utf-8")
    monkeypatch.setattr(issues, "ISSUES_FILE", path)
    issues._issue_table.cache_clear()
    with pytest.raises(SettingsError, match=r"issues\.csv, code bvn_length: "):
        issues.issue("bvn_length")
    issues._issue_table.cache_clear()


def test_cells_are_judged() -> None:
    """Marks go, digits stay, nothing is invented; what is in doubt is said."""
    for case in cases():
        verdict = case.judge(case.cell)
        codes = [each.code for each in verdict.issues]
        assert (verdict.value, codes) == (case.value, case.said), case
        if case.kept and case.said and case.judge in _OF_NO_USE:
            flawed = any(each.flaw is not Flaw.NONE for each in verdict.issues)
            assert flawed == (case.said != ["account_check_digit"]), case
        if case.judge is _start and case.said:
            assert verdict.issues[0].flaw is Flaw.CONSENT, case


@settings(max_examples=examples(400), deadline=None)
@given(st.from_regex(r"(\+?234|0)?[789][0-9]{9}", fullmatch=True))
def test_ordinary_phones_are_read_as_the_library_reads_them(cell: str) -> None:
    """The forms of nearly every file are recognised by their pattern alone."""
    number = phonenumbers.parse(cell, "NG")
    national = phonenumbers.national_significant_number(number)
    verdict = judge_phone(cell)
    if verdict.value is not None:
        assert verdict.value == f"+234{national}"
        assert bool(verdict.issues) != phonenumbers.is_valid_number(number)


amounts = st.from_regex(r"[0-9]{1,19}(\.[0-9]{0,4})?", fullmatch=True)
marked = st.from_regex(r"[(-]?(N|NGN|\u20a6)? ?[0-9]{1,3}(,[0-9]{2,3}){0,3}\)?", fullmatch=True)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.none() | amounts | marked | st.text(min_size=1, max_size=45), max_size=20))
def test_a_column_has_what_its_cells_have(cells: list[str | None]) -> None:
    """Each cell of a column is judged by its rule, in the column's own type, in order."""
    issues = Issues.blank(range(len(cells)))
    judged = judge_amounts(pa.array(cells, pa.string()), issues)
    verdicts = [(row, judge_amount(cell)) for row, cell in enumerate(cells) if cell is not None]
    values = dict.fromkeys(range(len(cells))) | {row: each.value for row, each in verdicts}
    assert judged.type == NAIRA
    assert judged.to_pylist() == list(values.values())
    found = [(row, issue.code) for row, verdict in verdicts for issue in verdict.issues]
    assert [(problem.line, problem.code) for problem in issues.problems] == found


DIGITS: list[tuple[str, str, int]] = [
    ("011", "000001457", 9),  # the worked example of the central bank's standard
    ("058", "012345678", 5),
    ("044", "000000000", 0),
    ("50211", "000000000", 2),
    ("50211", "200000000", 6),
]


def test_check_digit_follows_the_formula() -> None:
    """A 3-digit bank uses the old standard, any other institution the one of 2020."""
    for code, serial, digit in DIGITS:
        assert check_digit(institution_of(code), serial) == digit, (code, serial, digit)
        if len(code) == 3:  # which gives it the digit of the older standard
            weights = (3, 7, 3) * 4
            total = sum(int(d) * w for d, w in zip(code + serial, weights, strict=True))
            assert digit == -total % 10, (code, serial, digit)


ABSENT = [
    *["", "-", "--", "\u2014", "0", "00000000000", "0.0", "NIL", "nil", "N/A", "n/a", "NA", "None"],
    *["NULL", "#N/A", "Not Available", "undefined", "NaN", "<NA>", "0000-00-00"],
]


def test_words_for_nothing_are_nothing_and_others_stay() -> None:
    """Blank, dashes, zeros and the words of the list; zero naira at risk is an amount."""
    for cell in ABSENT:
        assert is_absent(cell)
        assert trimmed(pa.array([f"  {cell}\u00a0"])).to_pylist() == [None]
    for cell in ("0", "0.00", "000"):
        assert trimmed(pa.array([cell]), zero_is_value=True).to_pylist() == [cell]
    for cell in ("Nila", "0803", "10", "Nana", "NA Bello", "x", "O", "-5"):
        assert not is_absent(cell)
        assert trimmed(pa.array([f" {cell}\t"])).to_pylist() == [cell]
    for cell in ("I2345", "O1234", "12a", "\u0661\u0662", "1.5", "1,23"):
        assert bare_digits(cell) == cell


OWN = {"bvn": "31415926535", "bank_code": "058", "account": ACCOUNT, "phone": PHONE}


DISGUISED: list[tuple[str | None, list[str]]] = [
    ("customer_id_is_bvn", [BVN, "'22123456789", "2212-345-6789", "31415926535"]),
    ("customer_id_is_account", ["0123456785", "058-0123456785"]),
    (
        "customer_id_is_phone",
        ["08031234567", "8031234567", "07011234567", "+234 803 999 9999", "2348039999999"],
    ),
    (
        None,
        ["1", "000123", "C-22123456789", "1000000001", "0123456780", "33123456789"],
    ),
]


def test_an_identifier_in_disguise_is_no_customer_id() -> None:
    """A BVN, an account or a phone would end up in files that hold no identifiers."""
    for code, ids in DISGUISED:
        for text in ids:
            issue = judge_customer_id(text, **OWN)
            assert (issue and issue.code) == code, (code, ids)
