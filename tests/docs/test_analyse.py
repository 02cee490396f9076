"""The guide to pandas and DuckDB: its code runs on a screened batch and gives the right types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import chdir
from decimal import Decimal
from typing import Any

import pytest

from tests.docs.blocks import blocks
from tests.screening import CONSENT, World, customer

NIGHTS = 2
FORMULA = 6


def _customers(first: int, last: int) -> list[dict[str, str]]:
    """Return customers, one with a name that a spreadsheet would read as a formula."""
    return [
        customer(n, **CONSENT, branch=("Ikeja", "Ibadan")[n % 2])
        | {"consent_reference": f"CNS-{n}"}
        | ({"first_name": "=Ada", "last_name": "Obi\nNwa"} if n == FORMULA else {})
        for n in range(first, last)
    ]


@pytest.fixture(scope="module")
def lender(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Return a lender with two screened nights; the second reused no answers."""
    world = World(tmp_path_factory.mktemp("lender"))
    world.screen(_customers(1, 25), batch="borrowers")
    world.sandbox.day = 40
    ages = ["karma.clear=0", "karma.listed=0", "ecosystem.found=0", "ecosystem.not_found=0"]
    world.screen(_customers(5, 29), batch="borrowers", freshness=ages)
    return world


@pytest.fixture(scope="module")
def named(lender: World) -> Iterator[dict[str, Any]]:
    """Run all code of the guide in the folder with `out`; yield its variables."""
    found: dict[str, Any] = {}
    with chdir(lender.folder):
        for block in blocks():
            if block.page == "docs/analyse.md" and block.language == "python":
                exec(compile(block.text, block.page, "exec"), found)  # noqa: S102 - our own guide
        yield found


def test_types_are_right(named: dict[str, Any]) -> None:
    """Decimals, dates, instants, categories; identifiers and last digits are text.

    The list is read with its zeros and line breaks, and without the formula guard.
    """
    rows, listed = named["rows"], named["listed"]
    kinds = {name: str(rows[name].dtype) for name in rows}
    assert kinds["customer_id"] == kinds["bvn"] == kinds["account_number"] == "string[pyarrow]"
    assert kinds["exposure"] == "decimal128(20, 2)[pyarrow]"
    assert kinds["ecosystem_date_of_birth"] == "date32[day][pyarrow]"
    assert kinds["karma_checked_at"] == "timestamp[us, tz=UTC][pyarrow]"
    assert kinds["karma_status"] == kinds["decision"] == "category"
    assert kinds["ecosystem_running_loans"] == "int64[pyarrow]"
    assert all(each.is_integer() for each in rows["exposure"].map(float))
    assert isinstance(rows["exposure"].sum(), Decimal)
    assert set(listed["bvn_last4"].str.len()) == {4}
    assert (listed["bvn_last4"].str[0] == "0").any()
    assert str(listed["exposure"].dtype) == "decimal128(20, 2)[pyarrow]"
    assert str(listed["evidence_as_of"].dtype) == "timestamp[us, tz=UTC][pyarrow]"
    held = dict(zip(rows["customer_id"], rows["exposure"], strict=True))
    assert list(listed["exposure"]) == [held[each] for each in listed["customer_id"]]
    assert not listed["customer_name"].str.startswith("'").any()
    assert listed["customer_name"].str.startswith("=Ada").any()


def test_numbers_are_those_of_the_reports(named: dict[str, Any]) -> None:
    """Cost by check, decisions, changes and nights, against `report.json`."""
    report = json.loads((named["RUN"] / "report.json").read_text(encoding="utf-8"))
    assert named["calls"]["cost"].sum() == Decimal(report["cost"]["total"])
    assert named["calls"]["attempts"].size == sum(
        check["attempts"] for check in report["checks"].values()
    )
    decided = named["rows"]["decision"].value_counts()
    assert {word: decided.get(word, 0) for word in report["decisions"]} == report["decisions"]
    assert len(named["nights"]) == NIGHTS
    assert named["history"].aggregate("count(*) as n").fetchall() == [(24 + 24,)]
    assert not named["asked"]["last"].isna().any()
