"""Notices: who is told of a decision, by whose word, in which words, and who is not told now."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from nightscreen.config.declarations import Declarations, PolicyAlone
from nightscreen.config.settings import ContestClocks
from nightscreen.files.run_folder import RunFiles
from nightscreen.journal import Journal, open_journal
from nightscreen.journal.actor import Actor
from nightscreen.policy.load import check_policy
from nightscreen.privacy.contests import answer_contest, open_contest
from nightscreen.report.anomaly_check import earlier_reports
from nightscreen.results.notices import (
    NOTICE_COLUMNS,
    confirm_proposals,
    import_sent,
    record_action,
    rewrite_notices,
)
from nightscreen.runs.open_cases import release
from nightscreen.schemas.clock import LAGOS
from nightscreen.schemas.contests import ContestOutcome
from nightscreen.schemas.errors import InputError, NotAllowedError
from nightscreen.schemas.policy import ASK_US
from tests.begun import begin_run
from tests.results.reviewing import filled, save
from tests.screening import Night, World, csv_rows, customer

LISTED = "22999000001"
DECLINED = "We have declined your application."
_REWRITTEN = ("notices.csv", "manifest.json", "report.json", "report.html")
ACME = Path(__file__).with_name("acme.toml")
POLICY = ACME.read_text("utf-8")
ALONE = Declarations(
    policy_decides_alone=PolicyAlone(by="Board", on=date(2020, 1, 1), ground="Small loans only.")
)
ROWS = [
    customer(1, bvn=LISTED, language="Hausa", channel="sms"),
    customer(2, bvn=LISTED, language="Yoruba", channel="letter"),
    customer(3, last_name="Held"),
    customer(4, last_name="Look"),
    customer(5),
]


@dataclass(frozen=True)
class Screened:
    """Nights decided by acme.toml; in the last one it decides alone."""

    home: Path
    origination: Night
    portfolio: Night
    alone: Night


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Screened:
    world = World(tmp_path_factory.mktemp("world"))
    home = world.folder / "home"

    def screen(purpose: str, batch: str) -> Night:
        return world.screen(ROWS, purpose=purpose, batch=batch, checks=["karma"], policy=str(ACME))

    proposed, portfolio = (screen(each, each) for each in ("origination", "portfolio"))
    declared = "[policy_decides_alone]\nby = 'Board'\non = 2020-01-01\nground = 'Small loans.'\n"
    (home / "declarations.toml").write_text(declared, "utf-8")
    return Screened(home, proposed, portfolio, screen("origination", "alone"))


@pytest.fixture
def journal(nights: Screened, tmp_path: Path) -> Iterator[Journal]:
    """The journal after all nights; what a test adds to it is gone after the test."""
    folders = [each.folder for each in (nights.origination, nights.portfolio, nights.alone)]
    before = [
        (folder / name, (folder / name).read_bytes()) for folder in folders for name in _REWRITTEN
    ]
    shutil.copytree(nights.home, tmp_path / "home")
    with open_journal(tmp_path / "home") as opened:
        yield opened
    for file, content in before:
        file.write_bytes(content)


def notices(
    journal: Journal, night: Night, declared: Declarations | None = None
) -> dict[str, dict[str, str]]:
    run = journal.runs.get(night.report["run_id"])
    rewrite_notices(journal, run, declared or Declarations())
    return read(night.folder)


def read(folder: Path) -> dict[str, dict[str, str]]:
    return {row["customer_id"]: row for row in csv_rows(folder / "notices.csv")}


def reviewed(journal: Journal, night: Night, customer_id: str, decision: str) -> None:
    cells = filled(customer_id, night.report["run_id"], decision, reviewer="Ngozi Bello")
    assert save(journal, cells).saved == 1


def test_a_proposal_makes_no_notice_until_somebody_decided(
    nights: Screened, journal: Journal
) -> None:
    """The run's own file has headings only; a review brings a notice under the reviewer's name."""
    night = nights.origination
    assert (night.folder / "notices.csv").read_text("utf-8") == ",".join(NOTICE_COLUMNS) + "\n"
    assert night.report["customer_notices"]["waiting_for_a_person"] == 3
    assert night.report["files"]["notices.csv"] == 0
    assert "policy, proposed" in (night.folder / "decisions.csv").read_text("utf-8")
    reviewed(journal, night, "C1", "decline")
    reviewed(journal, night, "C2", "approve")
    reviewed(journal, night, "C4", "decline")
    found = notices(journal, night)
    assert set(found) == {"C1", "C4"}
    assert {row["decided_by"] for row in found.values()} == {"Ngozi Bello"}
    assert (found["C1"]["channel"], found["C1"]["reason_code"]) == ("sms", "LISTED")
    assert (found["C4"]["sentence"], found["C4"]["details"]) == (f"{DECLINED} {ASK_US}", "")


def test_words_are_those_of_the_customers_language_where_the_rule_has_it(
    nights: Screened, journal: Journal
) -> None:
    """Else of the policy's own; the digest is of the very sentence; a rule on hold tells nobody.

    A contest takes the customer out of the run's own file and its manifest, as it is opened.
    """
    night = nights.alone
    assert night.report["customer_notices"]["to_send"] == night.report["files"]["notices.csv"] == 2
    assert "proposed" not in (night.folder / "decisions.csv").read_text("utf-8")
    found = read(night.folder)
    assert set(found) == {"C1", "C2"}
    assert (found["C1"]["language"], found["C1"]["sentence"][:7]) == ("ha", "Rahoton")
    assert found["C2"]["language"] == "en"
    assert found["C2"]["sentence"].startswith(f"{DECLINED} ")
    assert found["C2"]["details"].startswith("Another lender reported you")
    assert found["C2"]["decided_by"].startswith("acme@")
    for row in found.values():
        assert row["sentence_digest"] == hashlib.sha256(row["sentence"].encode()).hexdigest()
    open_contest(journal, Actor("Ada"), ContestClocks(), "C1", said="Not me.", batch="alone")
    assert set(read(night.folder)) == {"C2"}
    assert not RunFiles.of(night.folder, "").touched


def test_a_held_run_is_released_with_a_reason_and_tells_its_customers(
    nights: Screened, journal: Journal
) -> None:
    """Journal, report and manifest say publishable from then on, and why.

    The file of notices that it lacked is written, so that later reviews are added to it too.
    """
    night, run_id = nights.alone, nights.alone.report["run_id"]
    to_send = set(read(night.folder))
    said, files = night.report["customer_notices"], dict(night.report["files"])
    number = files.pop("notices.csv")
    held = {**night.report, "held": ["odd"], "publishable": False, "files": files}
    held["customer_notices"] = None
    journal.runs.keep_report(run_id, held)
    (night.folder / "notices.csv").unlink()
    for unknown, reason in (("run-9", "because"), (run_id, " ")):
        with pytest.raises(InputError):
            release(journal, Actor("Ada"), unknown, reason, ALONE)
    assert earlier_reports(journal, "alone", "later")[0]["publishable"] is False
    report = release(journal, Actor("Ada"), run_id, "Looked at.", ALONE)
    with pytest.raises(InputError, match="not held"):
        release(journal, Actor("Ada"), run_id, "again", ALONE)
    assert set(read(night.folder)) == to_send != set()
    manifest = json.loads((night.folder / "manifest.json").read_text("utf-8"))
    assert manifest["files"]["notices.csv"]["rows"] == len(to_send)
    assert json.loads((night.folder / "report.json").read_text("utf-8")) == report
    assert report["publishable"] is manifest["publishable"] is True
    assert report["released"]["reason"] == "Looked at."
    assert not RunFiles.of(night.folder, "").touched
    assert (report["customer_notices"], report["files"]["notices.csv"]) == (said, number)
    begin_run(journal, "offers", batch="alone", flow="loans_offer")  # no night of the batch
    journal.runs.finish("offers", state="completed", stop_reason=None, report=report)
    (earlier,) = earlier_reports(journal, "alone", "later")
    assert earlier["publishable"] is True


def test_a_confirmed_run_is_decided_by_who_confirmed_it(nights: Screened, journal: Journal) -> None:
    """And that person may not answer what is contested then; contests pause the notice."""
    night = nights.origination
    confirm_proposals(journal, Actor("Bisi"), night.report["run_id"], Declarations())
    assert notices(journal, night)["C1"]["decided_by"] == "Bisi"
    contest = open_contest(
        journal, Actor("Ada"), ContestClocks(), "C1", said="Not me.", batch="origination"
    )
    assert set(notices(journal, night)) == {"C2"}
    with pytest.raises(NotAllowedError):
        answer_contest(
            journal, Actor("BISI"), contest.key, answer="No.", outcome=ContestOutcome.STANDS
        )
    answer_contest(
        journal, Actor("Tunde"), contest.key, answer="No.", outcome=ContestOutcome.STANDS
    )
    assert set(notices(journal, night)) == {"C1", "C2"}


def test_a_portfolio_decline_tells_nobody_but_an_action_does(
    nights: Screened, journal: Journal
) -> None:
    """Not even where the policy decides alone; the notice bears who acted and what was done."""
    night = nights.portfolio
    assert notices(journal, night, ALONE) == {}
    action = {"batch": "portfolio", "action": "Limit lowered"}
    record_action(journal, Actor("Musa"), "C2", **action)
    with pytest.raises(InputError, match="no such customer"):
        record_action(journal, Actor("Musa"), "C99", **action)
    (row,) = notices(journal, night).values()
    assert (row["customer_id"], row["decided_by"], row["action"]) == ("C2", "Musa", "Limit lowered")
    why = "Another lender's report is the reason. Ask for details at any time."
    assert row["sentence"] == f"Limit lowered. {why}"


def test_who_was_told_is_not_told_again(nights: Screened, journal: Journal, tmp_path: Path) -> None:
    """Filled-in notices come back whole or not at all, and twice is once."""
    night = nights.origination
    run_id = night.report["run_id"]
    confirm_proposals(journal, Actor("Bisi"), run_id, Declarations())
    rows = notices(journal, night)
    back = tmp_path / "back.csv"

    def hand_back(**cells: str) -> Any:  # noqa: ANN401 - what the import says
        with back.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, NOTICE_COLUMNS, delimiter=";")
            writer.writeheader()
            writer.writerow({**rows["C1"], **cells})
            writer.writerow(rows["C2"])
        return import_sent(journal, back)

    decided = datetime.fromisoformat(rows["C1"]["decided_at"]).astimezone(LAGOS)
    told = {"told_at": decided.date().isoformat(), "told_how": "letter", "told_by": "Ada"}
    for wrong in ({"told_how": ""}, {"told_at": "1999-01-01"}, {"run_id": "none"}):
        added, _, mistakes = hand_back(**{**told, **wrong})
        assert (added, len(mistakes)) == (0, 1)
    assert hand_back(**told)[:2] == (1, 0)
    assert hand_back(**told)[:2] == (0, 1)
    assert set(notices(journal, night)) == {"C2"}
    with pytest.raises(InputError, match=r"no notices\.csv"):
        import_sent(journal, night.folder / "decisions.csv")


@pytest.mark.parametrize(
    "short", ["You owe N5,000.", "You are on a blacklist.", "Fraud was reported.", "Over {most}."]
)
def test_a_short_sentence_that_accuses_or_names_an_amount_is_a_mistake(short: str) -> None:
    """It is read on a shared phone."""
    text = POLICY.replace(
        "Another lender's report is the reason. Ask for details at any time.", short
    )
    assert any("short" in each.message for each in check_policy(text).issues)
    assert check_policy(POLICY).issues == ()
