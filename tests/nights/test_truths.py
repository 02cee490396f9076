"""What must hold of the standard nights, told by somebody else than what wrote them.

The measure would find a slip too, but would keep it where it is kept anew.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import stat
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

from nightscreen.desk.pages import NOTHING
from nightscreen.policy.load import load_policy
from nightscreen.results.backtest import past_run, rows_of
from nightscreen.results.decide import decide
from tests.desk.office import Office
from tests.nights.fixed_world import DATA_KEY
from tests.nights.spent import WORLDS
from tests.nights.standard import StandardNight
from tests.recomputed import Folder

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


@pytest.mark.parametrize("name", sorted(DECIDED, key=lambda name: name != "killed"))
def test_figures_are_the_same_wherever_they_are_read(
    standard_night: StandardNight, name: str, tmp_path: Path
) -> None:
    """Tonight, Money, the run's page, its report, its CSV and its Parquet: rows, naira and cost.

    The killed night goes first: it is spent in a fork, which must not have a desk's database.
    """
    spent = standard_night(name)
    shutil.copytree(spent.world.folder / "home", tmp_path / "home")
    for path in (tmp_path / "home", *(tmp_path / "home").rglob("*")):
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
    with Office(tmp_path, changes={"data_key": DATA_KEY}) as office:
        ended = [run for run in office.journal.runs.newest(limit=100) if run.report]
        browser = office.browser("approver", "auditor")
        tonight, money = browser.get("/").text, browser.get("/money").text
        page = browser.get(f"/runs/{spent.night.report['run_id']}").text
    read = {run.run_id: json.loads((Path(run.folder) / "report.json").read_text()) for run in ended}
    shown = [re.findall(r"<td[^>]*>(?:<[^>]*>)?([^<]*)", row) for row in ROW.findall(tonight)]
    assert shown
    for run_id, *_, rows, cost in shown:
        assert plain(rows) == read[run_id]["rows"]["screened"]
        assert plain(cost) == Decimal(read[run_id]["cost"]["total"])
    by_batch = ROW.findall(money[money.index("By batch</h2>") : money.index("In doubt</h2>")])
    costs: dict[str, Decimal] = dict.fromkeys((run.batch for run in ended), Decimal())
    for run in ended:
        costs[run.batch] += Decimal(read[run.run_id]["cost"]["total"])
    assert by_batch or not sum(costs.values())
    for row in by_batch:
        batch, _, cost, _ = re.findall(r">([^<>]+)</t[hd]>", f"<th>{row}")
        assert plain(cost) == costs[batch]
    counted = Folder(spent.night.folder).counted
    rows = Counter(row["decision"] for row in counted)
    exposure = dict.fromkeys(rows, Decimal())
    for row in counted:
        exposure[row["decision"]] += row["exposure"] or 0
    decisions = spent.night.report["decisions"]
    assert {word: number for word, number in decisions.items() if number} == rows
    tiles = re.findall(r'said (\w+)" href=[^>]*><span>\w+</span><b>([^<]*)</b><span>([^<]*)', page)
    assert {word: plain(number) for word, number, _ in tiles if plain(number)} == rows
    assert all(plain(naira) == exposure.get(word, 0) for word, _, naira in tiles)
    with (spent.night.folder / "decisions.csv").open(encoding="utf-8-sig", newline="") as file:
        listed = Counter(row["decision"] for row in csv.DictReader(file))
    # whom people have decided on is not to work on any more
    reviewed = {"decline": 1, "undecided": 1} if name == "reviewed" else {}
    assert listed == {
        word: number - reviewed.get(word, 0) for word, number in rows.items() if word != "approve"
    }


ROW = re.compile(r'<tr><th scope="row">(.*?)</tr>', re.DOTALL)


def plain(shown: str) -> Decimal:
    """Return a number as a page shows it."""
    return Decimal(shown.replace("₦", "").replace(",", "").replace(NOTHING, "0").strip() or 0)


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
