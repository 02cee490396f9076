"""What must hold of the standard nights, told by somebody else than what wrote them.

The measure would find a slip too, but would keep it where it is kept anew.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from nightscreen.policy.loading import load_policy
from nightscreen.results.decide import decide
from nightscreen.results.replay import past_run, rows_of
from nightscreen.sandbox.people import account_of, ecosystem_of, karma_of
from nightscreen.schemas.checks import CONSENT_GATED
from tests.nights.spent import WORLDS

if TYPE_CHECKING:
    from tests.nights.standard import StandardNight

CHARGED = {
    "plain": ("plain", "second", "without-consent"),
    "capped": ("capped",),
    "dirty": ("dirty",),
    "two-workers": ("two-workers",),
    "applicants": ("applicants", "reviewed"),
    "topped-up": ("topped-up",),
    "faulty": ("faulty",),
    "killed": ("killed",),
}
"""By a night of each world whose nights are all standard ones: these."""
DECIDED = [name for name in WORLDS if name != "test-mode"]


@pytest.mark.parametrize("name", ["plain", "capped", "two-workers"])
def test_every_row_has_the_status_the_sandbox_knows(
    standard_night: StandardNight, name: str
) -> None:
    """Karma, account and history of each row are what the sandbox's people say."""
    for row in standard_night(name).night.rows:
        listed = "listed" if karma_of(row["bvn"]) is not None else "clear"
        assert row["karma_status"] in {listed, "pending"}
        history = ecosystem_of(row["bvn"])
        if row["ecosystem_source"]:
            assert row["ecosystem_status"] == ("found" if history else "not_found")
            assert row["ecosystem_loans"] == (history and history["loans"])
        account = account_of(row["bank_code"], row["account_number"])
        if row["bank_account_source"]:
            assert (row["bank_account_status"] == "not_found") == (account is None)
            assert row["bank_account_name"] == (account and account["account_name"])


@pytest.mark.parametrize("world", CHARGED)
def test_the_reports_equal_the_ledger_of_the_service(
    standard_night: StandardNight, world: str
) -> None:
    """What they say was spent is what it charged, and the rows add up to it.

    What was charged for answers that were lost is told apart.
    """
    nights = [standard_night(name).night for name in CHARGED[world]]
    known = sum(Decimal(night.report["cost"]["total"]) for night in nights)
    doubted = sum(Decimal(night.report["cost"]["in_doubt_exposure"]) for night in nights)
    charged = Decimal(standard_night(world).world.charged)
    assert known <= charged <= known + doubted
    for night in nights:
        total = Decimal(night.report["cost"]["total"])
        assert sum(night.column("cost")) <= total
        if not doubted:
            assert sum(night.column("cost")) == total


def test_a_stopped_run_has_its_greatest_exposures_answered(standard_night: StandardNight) -> None:
    """Its cap leaves no money unused for which there is a call."""
    night = standard_night("capped").night
    assert (night.report["state"], night.report["stop_reason"]) == ("stopped", "budget")
    reached, missed = (
        [row["exposure"] for row in night.rows if (row["karma_status"] == "pending") == waits]
        for waits in (False, True)
    )
    assert missed
    # one call opens and one closes the books: they may lie anywhere in the funded part
    assert sorted(reached)[1] >= sorted(missed)[-2]
    left = Decimal(night.report["cost"]["cap"]) - Decimal(night.report["cost"]["total"])
    assert left < 25


def test_no_answer_stands_or_is_asked_for_without_consent(standard_night: StandardNight) -> None:
    """Neither to a customer who took it back, nor by sharing a customer's who gave it."""
    nights = [standard_night(name).night for name in ("plain", "second", "without-consent")]
    shown = [{row["customer_id"]: row for row in night.rows} for night in nights]
    at_hand = {name for name, row in shown[1].items() if row["ecosystem_status"] == "found"}
    taken_back = [row for name, row in shown[2].items() if row["ecosystem_status"] == "refused"]
    assert at_hand & {row["customer_id"] for row in taken_back}
    assert shown[0]["TWIN"]["ecosystem_source"] == "shared"
    assert shown[0]["SILENT TWIN"]["ecosystem_status"] == "refused"
    for row in (*taken_back, shown[0]["SILENT TWIN"]):
        told = [name for name in row if name.startswith("ecosystem_") and row[name] is not None]
        assert told == ["ecosystem_status"]


@pytest.mark.parametrize("name", ["plain", "killed", "applicants"])
def test_each_call_names_the_consent_it_rests_on(standard_night: StandardNight, name: str) -> None:
    """The call sheet has the reference of a row in whose name the call was made."""
    night = standard_night(name).night
    given = {row["consent_reference"] for row in night.rows} - {None}
    for call in pq.read_table(night.folder / "calls.parquet").to_pylist():
        gated = call["check"] in CONSENT_GATED
        assert call["consent_reference"] in (given if gated else {None})


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


@pytest.mark.parametrize("name", ["capped", "faulty", "two-workers", "topped-up"])
def test_the_report_agrees_with_its_rows(standard_night: StandardNight, name: str) -> None:
    """What it says of exposure, spending and decisions can be counted in the files beside it."""
    night = standard_night(name).night
    report, rows = night.report, night.rows
    statuses = [f"{check}_status" for check in report["checks"]]
    waiting = [row for row in rows if any(row[status] == "pending" for status in statuses)]
    causes = report["exposure"]["not_screened"]["causes"]
    told = causes.get("pending", {"rows": 0, "exposure": "0.00"})
    assert told["rows"] == len(waiting)
    assert told["exposure"] == f"{sum((row['exposure'] for row in waiting), Decimal(0)):.2f}"
    assert report["coverage"]["due_rows"] == len(rows)
    assert report["spending"]["month"]["spent"] == report["cost"]["total"]
    assert report["timeline"]["spent"][-1] == report["cost"]["total"]
    assert report["balance"]["last_known"]["balance"] == report["balance"]["closing"]
    shared = sum(Decimal(each["saved_by_sharing"]) for each in report["checks"].values())
    assert Decimal(report["cost"]["saved_by_sharing"]) == shared
    flagged = Counter(night.column("decision"))
    assert report["cost"]["flagged_rows"] == flagged["decline"] + flagged["review"]


def test_a_night_that_asks_nothing_pays_nothing_and_knows_the_last_balance(
    standard_night: StandardNight,
) -> None:
    """All is reused, and the report says what that saved."""
    earlier, spent = standard_night("second"), standard_night("without-consent")
    night = spent.night
    assert spent.world.ends[1] == spent.world.ends[2]
    assert night.report["cost"]["total"] == "0.00"
    assert set(night.column("karma_source")) == {"reused"}
    answers = night.report["checks"]["karma"]
    assert answers["reused"] == answers["distinct"]
    assert night.column("karma_status") == earlier.night.column("karma_status")
    assert night.report["balance"]["closing"] is None
    known = night.report["balance"]["last_known"]
    assert known["balance"] == earlier.night.report["balance"]["closing"]
    assert known["nights_left"] > 0


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
    assert night.column("shadow_decision") == alone
    ways: Counter[tuple[str, str]] = Counter()
    naira = Decimal(0)
    for row in night.rows:
        ways[row["decision"], row["shadow_decision"]] += 1
        if row["decision"] != row["shadow_decision"]:
            naira += row["exposure"]
    shadow = night.report["shadow"]
    assert {(each["from"], each["to"]): each["rows"] for each in shadow["matrix"]} == dict(ways)
    moved = {row["customer_id"] for row in night.rows if row["decision"] != row["shadow_decision"]}
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
