"""Loans followed: day by day to their end, each change told exactly once."""

from __future__ import annotations

import asyncio
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import httpx
import pytest

from nightscreen.config.settings import Retention
from nightscreen.journal import open_journal
from nightscreen.journal.verify import verify_journal
from nightscreen.operations.loans import LoanTracking
from nightscreen.privacy.purging import due, purge
from nightscreen.results.outcomes import linked_offers
from nightscreen.sandbox.faults import FaultPlan
from nightscreen.schemas.clock import DAY_MICROS, system_clock
from nightscreen.schemas.offers import TrackLoans
from tests.operations.offers_in_a_test import Lender, Offered, borrower

DAYS = (0, 1, 3, 6, 20, 70, 130)


@pytest.fixture(scope="module")
def offered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Lender, Offered]:
    folder = tmp_path_factory.mktemp("offered")
    lender = Lender(folder)
    night = lender.screen([borrower(number) for number in range(1, 19)])
    return folder, lender, lender.offer(night)


@pytest.fixture
def offers(offered: tuple[Path, Lender, Offered]) -> Offered:
    return offered[2]


@pytest.fixture
def lender(offered: tuple[Path, Lender, Offered], tmp_path: Path) -> Lender:
    """That lender, everything a copy, on the day of the offers; the service is the same."""
    folder, first, _ = offered
    shutil.copytree(folder, tmp_path / "lender")
    first.on_day(0)
    first.sandbox.faults = FaultPlan(0)
    first.is_distributor(now=True)
    return Lender(tmp_path / "lender", sandbox=first.sandbox)


def asked(lender: Lender) -> TrackLoans:
    return TrackLoans(output=str(lender.folder / "out"))


def said(lender: Lender, reference: str) -> dict[str, str | None]:
    """Return what the service says of a loan today, as it would be told."""
    loan = lender.sandbox.loans.loans[reference]
    shown: dict[str, Any] = loan.as_json(lender.sandbox.day)
    money = ("loan_amount", "amount_disbursed", "paid")
    return {
        "status": shown["status"]["status"],
        "can_request": "true" if shown["status"]["can_request"] else "false",
        "reject_reason": shown["reject_reason"],
        **{name: None if shown[name] is None else f"{shown[name]:.2f}" for name in money},
    }


def test_followed_to_the_end_with_every_change_told_once(lender: Lender, offers: Offered) -> None:
    """What is reported, laid one on the other, is what the service says on every day."""
    told: dict[str, dict[str, str | None]] = {
        row["reference"]: {
            "can_request": "true",
            "amount_disbursed": "0.00",
            "paid": "0.00",
            "loan_amount": None,
            "reject_reason": None,
        }
        for row in offers.rows("offers.parquet")
    }
    words: dict[str, list[str]] = defaultdict(list)
    ended: set[str] = set()
    for day in DAYS:
        lender.on_day(day)
        before = len(lender.calls("loan_view"))
        found = lender.track()
        assert len(lender.calls("loan_view")) - before == len(told) - len(ended)
        for change in found.changes:
            mine = told[change["reference"]]
            assert mine.get(change["field"]) == change["old"], change
            mine[change["field"]] = change["new"]
            if change["field"] == "status":
                words[change["reference"]].append(change["new"])
        for reference, row in found.loans.items():
            assert told[reference] == said(lender, reference)
            assert row["status"] == told[reference]["status"]
            assert [each["status"] for each in row["history"]] == words[reference]
            if row["status"] in {"SETTLED", "CANCELLED"}:
                ended.add(reference)
    assert lender.track().changes == []
    assert ["PENDING", "RUNNING", "SETTLED"] in words.values()
    assert ["PENDING", "CANCELLED"] in words.values()
    assert found.report["statuses"]["SETTLED"] > 8


def test_new_word_is_kept_and_followed(lender: Lender, offers: Offered) -> None:
    """A word nobody has seen before ends nothing; `Rejected` does, in any case of letters."""
    first, second = list(offers.loans_offered)[:2]
    shown = {first: "ON_HOLD", second: "Rejected"}

    def instead(asked: httpx.Request) -> httpx.Response | None:
        word = shown.get(asked.url.path.rpartition("/")[2])
        data = {"status": {"status": word}, "paid": 12.5, "somebody": {"new": 1}}
        return httpx.Response(200, json={"status": "success", "data": data}) if word else None

    lender.instead = instead
    found = lender.track()
    assert (found.loans[first]["status"], found.loans[second]["status"]) == ("ON_HOLD", "Rejected")
    again = lender.track()
    assert again.loans[first]["state"] == "followed"
    assert again.loans[second]["state"] == "closed"
    shown[first] = "PENDING"
    change = [each for each in lender.track().changes if each["field"] == "status"]
    assert [(each["old"], each["new"]) for each in change] == [("ON_HOLD", "PENDING")]


def test_unknown_reference_is_told_once_and_asked_on(lender: Lender, offers: Offered) -> None:
    """The last word stays; should the service know it again, that is told too."""
    lender.track()
    book = lender.sandbox.loans.loans
    lost = next(iter(offers.loans_offered))
    loan = book.pop(lost)
    try:
        found = lender.track()
        assert found.loans[lost]["state"] == "unknown_reference"
        assert found.loans[lost]["status"] == "PENDING"
        assert [(c["field"], c["new"]) for c in found.changes] == [("reference", "unknown")]
        assert "1 references are not known" in found.report["notices"][0]
        assert found.report["state"] == "completed"
        assert lender.track().changes == []
    finally:
        book[lost] = loan
    back = lender.track().changes
    assert [(each["field"], each["new"]) for each in back] == [("reference", "known")]


def test_what_a_dead_run_saw_is_told_by_the_next(lender: Lender, offers: Offered) -> None:
    """Once: by the next run, or by itself where it is resumed."""
    lender.dies(LoanTracking, asked(lender), "report")
    first = [each for each in lender.track().changes if each["field"] == "status"]
    assert len(first) == len(offers.offers)
    assert lender.track().changes == []
    lender.on_day(6)
    run_id = lender.dies(LoanTracking, asked(lender), "report")
    resumed = lender.track(run=run_id)
    assert resumed.changes
    view = resumed.report["checks"]["loan_view"]
    assert view["attempts"] == view["lookups"], "what the dead run viewed is not asked again"
    assert lender.track().changes == []


def test_two_runs_at_once_tell_each_change_once(lender: Lender, offers: Offered) -> None:
    async def both() -> list[Offered]:
        runs = (lender.ran(LoanTracking, asked(lender)) for _ in range(2))
        return list(await asyncio.gather(*runs))

    done = asyncio.run(both())
    told = [each["reference"] for one in done for each in one.changes if each["field"] == "status"]
    assert sorted(told) == sorted(offers.loans_offered)
    assert all({row["status"] for row in one.loans.values()} == {"PENDING"} for one in done)


def test_old_lists_and_ended_loans_are_purged(tmp_path: Path) -> None:
    """Lists go with enriched rows; ended loans with decisions; an open one stays while followed."""
    lender = Lender(tmp_path)
    night = lender.screen([borrower(number) for number in (1, 2, 4, 5)], batch="borrowers")
    offered = lender.offer(night)
    lender.on_day(6)
    followed = lender.track()
    later = system_clock() + 365 * 8 * DAY_MICROS
    late = Lender(lender.folder, sandbox=lender.sandbox, clock=lambda: later)
    open_before = [row for row in followed.loans.values() if row["status"] == "RUNNING"]
    assert open_before
    late.track()
    with open_journal(lender.folder / "home", clock=late.clock) as journal:
        purge(journal, due(journal, Retention()))
        left = linked_offers(journal)
        assert {each.status_history[-1]["status"] for each in left} <= {"RUNNING", "PENDING"}
        assert len(left) >= len(open_before)
        assert verify_journal(journal) == []
    assert not (offered.folder / "offers.parquet").exists()
    assert not (offered.folder / "offers.csv").exists()
    assert not (followed.folder / "loans.parquet").exists()
