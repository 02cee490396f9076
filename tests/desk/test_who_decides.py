"""Every door to a decision: command line, desk and inbox, with one rule on who may go through."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from nightscreen.config.parameters import WatchInbox
from nightscreen.files.inbox import Inbox
from nightscreen.inbox.file_intake import Fate, examine, safe_name
from nightscreen.journal.audit import AuditQuery
from nightscreen.policy.load import read_text
from nightscreen.policy.versions import propose, versions
from nightscreen.schemas.contests import PolicyState
from nightscreen.schemas.users import Role
from tests.begun import begin_run
from tests.cli.conftest import Here
from tests.desk.office import Office
from tests.desk.test_my_work import declined
from tests.screening import csv_rows

WAITS, HELD = "20260301-220000-a1b2c3", "20260301-220000-a1b2c4"
REASON = "A new branch."


@pytest.fixture
def bank(bank: Office, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Office:
    """The desk of two nights, a run that waits for approval, one that is held, and a proposal."""
    monkeypatch.setenv("NIGHTSCREEN_HOME", str(folder / "home"))
    for run_id, state, reason in ((WAITS, "stopped", "approval"), (HELD, "completed", None)):
        begin_run(bank.journal, run_id, batch="b", folder=str(folder / run_id))
        report = {"state": state, "held": ["odd"]} if reason is None else {}
        bank.journal.runs.finish(run_id, state=state, stop_reason=reason, report=report)
    bank.context.approvals.ask(
        WAITS, asked_by="x", reason="", quote={"quoted": {}}, ceiling_micro=1, cap_micro=None
    )
    propose(bank.journal, read_text(None), by="Ada", note="as it is")
    return bank


def back(bank: Office, file: Path, customer_id: str) -> Path:
    """Write the night's list as it comes back, with one customer approved by Ada."""
    came = csv_rows(Path(bank.night.folder) / "decisions.csv")
    (row,) = [each for each in came if each["customer_id"] == customer_id]
    row |= {"reviewer_decision": "approve", "reviewer": "Ada", "review_note": "Letter seen."}
    with file.open("w", encoding="utf-8", newline="") as filled:
        writer = csv.DictWriter(filled, row)
        writer.writeheader()
        writer.writerow(row)
    return file


def commands(bank: Office) -> dict[tuple[str, ...], str]:
    """Return every command that decides something, and the page that decides it at the desk."""
    file = str(back(bank, bank.folder / "back.csv", declined(bank)[0]))
    (proposed,) = versions(bank.journal)
    return {
        ("approve", WAITS): "/approvals",
        ("approve", WAITS, "--refuse"): "/approvals",
        ("policy", "approve", proposed.policy, "--by", "Ngozi"): "/policy",
        ("review", "import", file): "/decisions",
        ("runs", "release", HELD, "--reason", REASON): f"/runs/{HELD}",
        ("journal", "settle", "1", "--cost", "5"): "/money",
    }


def decided(bank: Office) -> dict[str, object]:
    """Return all that somebody has decided so far."""
    journal, held = bank.journal, bank.journal.runs.find(HELD)
    waits = bank.context.approvals.newest(WAITS)
    return {
        "spending": waits.decision if waits else None,
        "policy": [each.state for each in versions(journal)],
        "reviews": [each.decision for each in bank.context.reviews.of_batch("portfolio")],
        "released": bool(held and (held.report or {}).get("released")),
    }


def test_commands_name_the_page_where_the_desk_has_users(bank: Office, here: Here) -> None:
    """One line and exit status 2, whoever is named, also for programs; nothing is decided."""
    bank.context.accounts.add("Ada", [Role.ANALYST])  # nobody of them can sign in yet
    before = decided(bank)
    for words, page in commands(bank).items():
        ended = here(*words)
        assert (ended.status, ended.out) == (2, ""), words
        assert ended.err.count("\n") == 1, words
        assert f"{page} at the desk" in ended.err, words
        in_json = here(*words, "--json")
        assert in_json.status == 2, words
        assert f"{page} at the desk" in json.loads(in_json.out)["error"], words
    assert decided(bank) == before


def test_commands_decide_where_the_desk_has_none(
    bank: Office, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each under the machine's account, beside who is named; the audit has every one of them."""
    monkeypatch.setattr("getpass.getuser", lambda: "bem")
    done = commands(bank)
    for words in done:
        if words != ("approve", WAITS):  # to approve resumes the run
            assert (here(*words).status == 0) is (words[0] != "journal"), words
    assert decided(bank) == {
        "spending": "refused",
        "policy": [PolicyState.APPROVED],
        "reviews": ["approve"],
        "released": True,
    }
    written = [(each["action"], each["user"]) for each in bank.context.audit.find()]
    assert {user for _, user in written} == {"bem"}
    assert [action for action, _ in reversed(written)] == [
        "spending refused",
        "policy approved",
        "reviews imported",
        "run released",
    ]


def test_list_that_is_dropped_is_refused_where_the_desk_has_users(bank: Office) -> None:
    """As by command: nothing of it is saved, and the text beside it names the page."""
    fates = []
    for number, who in enumerate(declined(bank)[:2]):
        inbox = Inbox.open(bank.folder / "inbox", bank.folder / "home")
        back(bank, bank.folder / "inbox" / "decisions.csv", who)
        (name,) = inbox.look()
        ticket = inbox.claim(name, safe_name(name), f"20260301-22000{number}")
        assert ticket is not None
        fates.append(examine(ticket, WatchInbox(), bank.settings, inbox))
        bank.context.accounts.add(f"Ada {number}", [Role.ANALYST])
    assert fates == [Fate.IMPORTED, Fate.FAILED]
    assert decided(bank)["reviews"] == ["approve"]
    (wrong,) = (bank.folder / "inbox" / "failed").rglob("what-is-wrong.txt")
    assert "/decisions at the desk" in " ".join(wrong.read_text("utf-8").split())


def test_a_report_is_signed_as_it_stands(bank: Office) -> None:
    """It shows who signed and when; a report that has changed since says so, and is signed anew."""
    analyst, approver = bank.browser("analyst", name="Ada"), bank.browser("approver", name="Bem")
    run_id = bank.night.run_id
    page, signing = f"/runs/{run_id}", f"/runs/{run_id}/sign"
    assert "<button>Sign</button>" not in analyst.get(page).text
    assert "<button>Sign</button>" in approver.get(page).text
    assert approver.post(signing, note="read it").status_code == 303
    assert "Signed by Bem" in analyst.get(page).text
    assert approver.post(signing).status_code == 400
    report = {**(bank.night.report or {}), "notices": ["one more"]}
    bank.journal.runs.finish(run_id, state=bank.night.state, stop_reason=None, report=report)
    assert "The report has changed since." in analyst.get(page).text
    assert approver.post(signing).status_code == 303
    signed = bank.context.audit.find(AuditQuery(action="report signed"))
    assert [each["user"] for each in signed] == ["Bem", "Bem"]
