"""What one cell means: BVNs, accounts, phones, addresses, images, amounts, dates and times."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightscreen.schemas.columns import NAME_FIELDS, Flaw
from nightscreen.schemas.errors import SettingsError
from nightscreen.schemas.shipped import DATA, read_rows
from nightscreen.values import identifiers, issues
from nightscreen.values.addresses import DOMAIN, EMAIL, IMAGE_URL
from nightscreen.values.amounts import DAYS, amounts
from nightscreen.values.banks import agrees, institution_of, judge_account, judge_accounts
from nightscreen.values.dates import dates, instants
from nightscreen.values.identifiers import BVN as BVN_RULE
from nightscreen.values.identifiers import judge_customer_id
from nightscreen.values.issues import (
    ColumnRule,
    Issues,
    bare_digits,
    is_absent,
    judge_column,
    trimmed,
)
from nightscreen.values.phones import PHONE as PHONE_RULE
from tests.how_many import examples

BVN, PHONE, ACCOUNT = "22123456789", "+2348031234567", "0123456785"
GTB = institution_of("058")
RULES: dict[str, ColumnRule[Any]] = {
    "bvn": BVN_RULE,
    "account": ColumnRule(partial(judge_account, institution=GTB)),
    "account_without_bank": ColumnRule(partial(judge_account, institution=None)),
    "phone": PHONE_RULE,
    "email": EMAIL,
    "domain": DOMAIN,
    "image_url": IMAGE_URL,
    "amount": amounts("exposure"),
    "tenor": DAYS,
    "date": dates(None),
    **{f"date_{order}": dates(order) for order in ("dmy", "mdy", "ymd")},
    "start": instants(None),
    "end": instants(None, ends=True),
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

    rule: str
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
                yield Case(name, cell, cell if kept else value, line.get("said", "").split(), kept)


_OF_NO_USE = {"bvn", "phone", "email", "domain", "image_url", "account", "account_without_bank"}
"""Rules of identifiers: what keeps its text with an issue is of no use, but for a check digit."""


def test_every_issue_of_the_table_is_found_in_a_cell() -> None:
    """No line of data/issues.csv is for nothing.

    Those of banks are found by test_banks, those of customer ids by tests/runs/test_intake.
    """
    found = {code for case in cases() for code in case.said}
    codes = {row["code"] for row in read_rows(DATA / "issues.csv")}
    assert {
        code for code in codes - found if not code.startswith(("bank_", "customer_id_"))
    } == set()


@pytest.mark.parametrize(
    "row", ["bvn_length,wrong,bvn,x", "bvn_length,invalid,bvm,x", "bvn_letters,invalid,bvn,x"]
)
def test_a_mistake_in_the_table_of_issues_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: str
) -> None:
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
        verdict = RULES[case.rule].judge(case.cell)
        codes = [each.code for each in verdict.issues]
        assert (verdict.value, codes) == (case.value, case.said), case
        if case.kept and case.said and case.rule in _OF_NO_USE:
            flawed = any(each.flaw is not Flaw.NONE for each in verdict.issues)
            assert flawed == (case.said != ["account_check_digit"]), case
        if case.rule == "start" and case.said:
            assert verdict.issues[0].flaw is Flaw.CONSENT, case


NUMBERS = "[0-9]{9,12}|22[0-9]{9}|([0-9])\\1{9,10}"
DAYS_WRITTEN = "(19|20)[0-9]{2}-(0[1-9]|1[0-3])-([0-2][0-9]|3[0-2])"
NEARLY_SURE = {
    "bvn": NUMBERS,
    "account": NUMBERS,
    "account_without_bank": NUMBERS,
    "phone": r"(\+?234|0)?[- ]?[789]([0-9]{3}[- ]?[0-9]{6}|0{9}|[0-9]( ?[0-9]){8})",
    "email": r"[A-Za-z0-9._+-]{1,20}@([A-Za-z0-9-]{1,9}\.){1,3}([A-Za-z]{2,4}|lan|local|HOME)",
    "amount": r"(0|[0-9]{1,3}(,?[0-9]{3}){0,6})(\.[0-9]{0,3})?",
    "date": DAYS_WRITTEN,
    "date_dmy": DAYS_WRITTEN,
    "start": rf"{DAYS_WRITTEN}([T ][0-2][0-9]:[0-6][0-9](:[0-6][0-9])?(\+0[0-2]:00|Z)?)?",
    "end": rf"{DAYS_WRITTEN}([T ][0-2][0-9]:[0-6][0-9](:[0-6][0-9])?(\+0[0-2]:00|Z)?)?",
}
"""What is nearly, or surely, as it should be."""


def in_column(name: str, text: pa.Array, issues: Issues) -> list[Any]:
    """Judge cells together, as intake does."""
    if name.startswith("account"):
        banks = pa.array([GTB if name == "account" else None] * len(text), pa.string())
        values = judge_accounts(text, banks, issues)
    else:
        values = judge_column(text, RULES[name], name, issues)
    return [each.as_py() for each in values]


@settings(max_examples=examples(300), deadline=None)
@given(st.data(), st.sampled_from(sorted(NEARLY_SURE)))
def test_a_column_is_judged_as_its_cells_are(data: st.DataObject, name: str) -> None:
    """What is recognised without its rule has the value that the rule gives it, and no issue."""
    nearly = st.from_regex(re.compile(NEARLY_SURE[name], re.ASCII), fullmatch=True)
    cells = st.none() | nearly | nearly.map(str.upper) | st.text(max_size=45)
    text = trimmed(pa.array(data.draw(st.lists(cells, max_size=20)), pa.string()))
    found = Issues.blank(range(len(text)))
    values = in_column(name, text, found)
    alone = [None if cell is None else RULES[name].judge(cell) for cell in text.to_pylist()]
    assert values == [each and each.value for each in alone]
    codes = [(row, said.code) for row, each in enumerate(alone) if each for said in each.issues]
    assert [(problem.line, problem.code) for problem in found.problems] == codes


def test_cells_of_the_table_are_judged_in_a_column_as_alone() -> None:
    """The cases above, all cells of a rule together."""
    for name in RULES:
        found = [case for case in cases() if case.rule == name]
        issues = Issues.blank(range(len(found)))
        values = in_column(name, pa.array([case.cell for case in found], pa.string()), issues)
        assert values == [case.value for case in found], name
        said = [(row, code) for row, case in enumerate(found) for code in case.said]
        assert [(each.line, each.code) for each in issues.problems] == said, name


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
        institution = institution_of(code)
        right = [each for each in range(10) if agrees(institution, f"{serial}{each}")]
        assert right == [digit], (code, serial, digit)
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


NUMBERS_USED = ("22123456789", "0123456785", "+2348031234567", "8031234567", "12345", "123456")
WORDS_USED = ("Ada", "Okafor", "AKIN OKAFOR", "consent", "ada@cns.example", "CNS", "#", "/7", " ")
PIECES = st.sampled_from((*NUMBERS_USED, *WORDS_USED))


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.lists(st.none() | PIECES, min_size=13, max_size=13), max_size=3))
def test_references_are_masked_together_as_alone(rows: list[list[str | None]]) -> None:
    """Short references are passed without the rule, which would pass each of them."""
    names = ("bvn", "account_number", "phone", *NAME_FIELDS, "email")
    references = ["-".join(filter(None, row[len(names) :])) or None for row in rows]
    own = [row[: len(names)] for row in rows]
    table = pa.table(
        {name: pa.array([row[at] for row in own], pa.string()) for at, name in enumerate(names)}
    ).append_column("consent_reference", pa.array(references, pa.string()))
    masked = [
        identifiers.MASKED_REFERENCE
        if reference and identifiers._names_a_person(reference, *row)
        else reference
        for reference, row in zip(references, own, strict=True)
    ]
    assert identifiers.references(table).to_pylist() == masked
