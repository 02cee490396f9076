"""What must be true of the standard nights, computed independently of the code that wrote them.

The saved outputs would show a mistake too, but not after they were saved again with it.
"""

from __future__ import annotations

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
from tests.screening import Night, csv_rows

DECIDED = [name for name in WORLDS if name != "test-mode"]
BY_WORLD = sorted(
    (
        tuple(name for name in DECIDED if WORLDS[name] is spend)
        for spend in dict.fromkeys(WORLDS[name] for name in DECIDED)
    ),
    key=lambda names: "killed" not in names,
)
"""The nights of each world together."""


@pytest.mark.parametrize("name", DECIDED)
def test_every_row_leaves_with_a_decision_and_the_policy_it_rests_on(
    standard_night: StandardNight, name: str
) -> None:
    """The manifest has the same policy label; no row is approved without evidence."""
    night = standard_night(name).night
    assert set(night.column("decision")) <= {"approve", "review", "decline", "undecided"}
    (label,) = set(night.column("policy"))
    assert night.manifest["policy"]["label"] == label
    for row in night.rows:
        if row["decision"] == "approve":
            assert row["karma_status"] == "clear"
            assert row["bank_account_status"] == "verified"


@pytest.mark.parametrize("names", BY_WORLD, ids="-".join)
def test_figures_are_the_same_wherever_they_are_read(
    standard_night: StandardNight, names: tuple[str, ...], tmp_path: Path
) -> None:
    """Tonight, Money, the run's page, its report, its CSV and its Parquet: rows, naira and cost.

    The killed night comes first: it runs in a fork, which must not inherit a desk's database.
    """
    nights = {name: standard_night(name) for name in names}
    shutil.copytree(nights[names[0]].world.folder / "home", tmp_path / "home")
    for path in (tmp_path / "home", *(tmp_path / "home").rglob("*")):
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
    with Office(tmp_path, changes={"data_key": DATA_KEY}) as office:
        ended = [run for run in office.journal.runs.newest(limit=100) if run.report]
        browser = office.browser("approver", "auditor")
        tonight, money = browser.get("/").text, browser.get("/money").text
        pages = {
            name: browser.get(f"/runs/{spent.night.report['run_id']}").text
            for name, spent in nights.items()
        }
    reports = {
        run.run_id: json.loads((Path(run.folder) / "report.json").read_text()) for run in ended
    }
    shown = [re.findall(r"<td[^>]*>(?:<[^>]*>)?([^<]*)", row) for row in ROW.findall(tonight)]
    assert shown
    for run_id, *_, rows, cost in shown:
        assert plain(rows) == reports[run_id]["rows"]["screened"]
        assert plain(cost) == Decimal(reports[run_id]["cost"]["total"])
    by_batch = ROW.findall(money[money.index("By batch</h2>") : money.index("In doubt</h2>")])
    costs: dict[str, Decimal] = dict.fromkeys((run.batch for run in ended), Decimal())
    for run in ended:
        costs[run.batch] += Decimal(reports[run.run_id]["cost"]["total"])
    assert by_batch or not sum(costs.values())
    for row in by_batch:
        batch, _, cost, _ = re.findall(r">([^<>]+)</t[hd]>", f"<th>{row}")
        assert plain(cost) == costs[batch]
    for name, page in pages.items():
        require_same_decisions(name, nights[name].night, page)


def require_same_decisions(name: str, night: Night, page: str) -> None:
    """Compare rows and naira by decision: the run's page, its report, its list and its Parquet."""
    counted = Folder(night.folder).counted
    rows = Counter(row["decision"] for row in counted)
    exposure = dict.fromkeys(rows, Decimal())
    for row in counted:
        exposure[row["decision"]] += row["exposure"] or 0
    assert {each: n for each, n in night.report["decisions"].items() if n} == rows
    tiles = re.findall(r'said (\w+)" href=[^>]*><span>\w+</span><b>([^<]*)</b><span>([^<]*)', page)
    assert {each: plain(number) for each, number, _ in tiles if plain(number)} == rows
    assert all(plain(naira) == exposure.get(each, 0) for each, _, naira in tiles)
    listed = Counter(row["decision"] for row in csv_rows(night.folder / "decisions.csv"))
    # reviewed customers are not in the list any more
    reviewed = {"decline": 1, "undecided": 1} if name == "reviewed" else {}
    assert listed == {
        each: number - reviewed.get(each, 0) for each, number in rows.items() if each != "approve"
    }


ROW = re.compile(r'<tr><th scope="row">(.*?)</tr>', re.DOTALL)


def plain(shown: str) -> Decimal:
    """Return the number that a page shows."""
    return Decimal(shown.replace("₦", "").replace(",", "").replace(NOTHING, "0").strip() or 0)


def test_a_second_policy_decides_beside_the_one_in_force(standard_night: StandardNight) -> None:
    """It decides as it would alone; report and list show whose decision would change."""
    spent = standard_night("applicants")
    night = spent.night
    policy, run = load_policy(spent.world.folder / "strict.toml"), past_run(night.folder)
    alone = [
        decision
        for rows in rows_of(run, [policy])
        for decision in decide(rows, policy, purpose=run.purpose)["decision"].to_pylist()
    ]
    pairs = Counter(zip(night.column("decision"), alone, strict=True))
    moving = [row for row, each in zip(night.rows, alone, strict=True) if row["decision"] != each]
    naira = sum((row["exposure"] for row in moving), Decimal(0))
    shadow = night.report["shadow"]
    assert {(each["from"], each["to"]): each["rows"] for each in shadow["matrix"]} == dict(pairs)
    moved = {row["customer_id"] for row in moving}
    assert shadow["moved"]["rows"] == len(moved) > 0
    assert Decimal(shadow["moved"]["exposure"]) == naira
    assert {row["customer_id"] for row in csv_rows(night.folder / "shadow.csv")} == moved
    page = (night.folder / "report.html").read_text(encoding="utf-8")
    assert f"{len(moved)} customers would be decided otherwise" in page


def test_a_loan_book_counts_each_customer_once(standard_night: StandardNight) -> None:
    """Rows keep their amounts and have their customer's answers; all figures count customers."""
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
    listed = csv_rows(night.folder / "decisions.csv")
    assert len({row["customer_id"] for row in listed}) == len(listed)
    assert all(Decimal(row["exposure"]) == owed[row["customer_id"]] for row in listed)
