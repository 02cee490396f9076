"""What must hold of the standard nights, told by somebody else than what wrote them.

The measure would find a slip too, but would keep it where it is kept anew.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from nightscreen.policy.load import load_policy
from nightscreen.results.backtest import past_run, rows_of
from nightscreen.results.decide import decide
from tests.nights.spent import WORLDS

if TYPE_CHECKING:
    from tests.nights.standard import StandardNight

DECIDED = [name for name in WORLDS if name != "test-mode"]


@pytest.mark.parametrize("name", DECIDED)
def test_every_row_leaves_with_a_decision_and_the_policy_it_rests_on(
    standard_night: StandardNight, name: str
) -> None:
    """The manifest names the policy by the same digest; nobody is approved without evidence."""
    night = standard_night(name).night
    assert set(night.column("decision")) <= {"approve", "review", "decline", "undecided"}
    (label,) = set(night.column("policy"))
    manifest = json.loads((night.folder / "manifest.json").read_text("utf-8"))
    assert manifest["policy"]["label"] == label
    for row in night.rows:
        if row["decision"] == "approve":
            assert row["karma_status"] == "clear"
            assert row["bank_account_status"] == "verified"


def test_a_second_policy_decides_beside_the_one_in_force(standard_night: StandardNight) -> None:
    """Its decisions are what it alone would make, and report and list tell who would move."""
    spent = standard_night("applicants")
    night = spent.night
    policy, run = load_policy(spent.world.folder / "strict.toml"), past_run(night.folder)
    alone = [
        word
        for rows in rows_of(run, [policy])
        for word in decide(rows, policy, purpose=run.purpose)["decision"].to_pylist()
    ]
    ways = Counter(zip(night.column("decision"), alone, strict=True))
    moving = [row for row, word in zip(night.rows, alone, strict=True) if row["decision"] != word]
    naira = sum((row["exposure"] for row in moving), Decimal(0))
    shadow = night.report["shadow"]
    assert {(each["from"], each["to"]): each["rows"] for each in shadow["matrix"]} == dict(ways)
    moved = {row["customer_id"] for row in moving}
    assert shadow["moved"]["rows"] == len(moved) > 0
    assert Decimal(shadow["moved"]["exposure"]) == naira
    with (night.folder / "shadow.csv").open(encoding="utf-8", newline="") as file:
        assert {row["customer_id"] for row in csv.DictReader(file)} == moved
    page = (night.folder / "report.html").read_text(encoding="utf-8")
    assert f"{len(moved)} customers would be decided otherwise" in page


def test_a_loan_book_counts_each_customer_once(standard_night: StandardNight) -> None:
    """Rows keep their amounts and bear their customer's answers; every figure counts customers."""
    night = standard_night("loan-book").night
    rows, report = night.rows, night.report
    owed: dict[str, Decimal] = {}
    decided: dict[str, tuple[str, str]] = {}
    seen: Counter[str] = Counter()
    for row in rows:
        name = row["customer_id"]
        seen[name] += 1
        open_ = row["Loan Status"] in {"Running", "Overdue"}
        owed[name] = owed.get(name, Decimal(0)) + (row["exposure"] if open_ else 0)
        answers = (row["decision"], row["karma_status"])
        assert decided.setdefault(name, answers) == answers
        assert row["customer_row"] == seen[name]
    assert [row["customer_exposure"] for row in rows] == [owed[row["customer_id"]] for row in rows]
    assert max(seen.values()) > 1
    assert report["rows"]["customers"] == len(owed) == sum(report["decisions"].values())
    assert report["checks"]["karma"]["lookups"] == len(owed)
    assert report["exposure"]["total"] == f"{sum(owed.values()):.2f}"
    with (night.folder / "decisions.csv").open(encoding="utf-8-sig", newline="") as file:
        listed = list(csv.DictReader(file))
    assert len({row["customer_id"] for row in listed}) == len(listed)
    assert all(Decimal(row["exposure"]) == owed[row["customer_id"]] for row in listed)
