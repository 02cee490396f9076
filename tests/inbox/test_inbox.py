"""What becomes of files in the inbox: each is screened once, or told in words why not."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import shutil
import sqlite3
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nightscreen.config.parameters import WatchInbox
from nightscreen.config.settings import Retention
from nightscreen.files.inbox import Inbox, Ticket
from nightscreen.inbox.file_intake import (
    MOST_ATTEMPTS,
    Fate,
    ToScreen,
    decided_runs,
    examine,
    place_file,
    safe_name,
)
from nightscreen.journal import open_journal
from nightscreen.journal.actor import Actor
from nightscreen.journal.approvals import Approvals
from nightscreen.privacy.erasure import ErasureTarget, erase, find_person_data
from nightscreen.privacy.purging import due, purge
from nightscreen.schemas.approvals import ApprovalDecision
from nightscreen.schemas.clock import DAY_MICROS, system_clock
from nightscreen.schemas.errors import InputError
from tests import left_behind
from tests.privacy.search import Search
from tests.screening import AskingApproval, Unasked, World, csv_rows, customer

ROWS = 12


@dataclass
class Desk(World):
    """A world with an inbox, watched by hand: one file at a time."""

    options: dict[str, Any] = field(default_factory=dict)
    runner: type[Unasked] = Unasked

    @property
    def dropped(self) -> Path:
        return self.folder / "inbox"

    @property
    def inbox(self) -> Inbox:
        """Return the inbox as a new process opens it."""
        return Inbox.open(self.dropped, self.folder / "home")

    def drop(self, name: str, first: int = 1, rows: int = ROWS) -> Path:
        """Put a file of customers into the inbox; return a copy that stays."""
        kept = self.write([customer(first + number) for number in range(rows)], f"kept-{name}")
        shutil.copy(kept, self.dropped / name)
        return kept

    def take(self) -> Ticket:
        """Take the only file that lies there."""
        (name,) = self.inbox.look()
        ticket = self.inbox.claim(name, safe_name(name), "20260301-220000")
        assert ticket is not None
        return ticket

    def look_into(self, ticket: Ticket) -> ToScreen | Fate:
        return examine(ticket, WatchInbox(**self.options), self.read_settings(), self.inbox)

    def run(self, ticket: Ticket) -> Fate:
        """Screen a file that is to be screened, and put it away."""
        found = self.look_into(ticket)
        if isinstance(found, Fate):
            return found
        night = self.screen_by(self.runner(), **found.parameters.model_dump())
        found.content.release()
        return place_file(ticket, night.report, self.read_settings(), self.inbox)

    def reports(self) -> list[dict[str, Any]]:
        """Return the reports of the inbox's runs, oldest first."""
        found = sorted((self.dropped / "done").glob("*/report.json"))
        return [json.loads(path.read_text()) for path in found]

    def told(self, name: str) -> list[str]:
        """Return the texts of a name that people find in the inbox."""
        return [path.read_text() for path in sorted(self.dropped.glob(f"*/*/{name}"))]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    found = Desk(tmp_path)
    assert not found.inbox.look()
    return found


def test_a_file_is_moved_beside_its_result_and_screened_once(desk: Desk) -> None:
    """Quote, decisions and report lie beside it; the folder it was taken into is gone.

    Dropped again, also under another name, it is known, and whoever drops it is told the run. It
    goes with the enriched rows, since it holds what they hold; the report stays.
    """
    kept = desk.drop("applicants-20260301.csv")
    assert desk.run(desk.take()) is Fate.SCREENED
    (report,) = desk.reports()
    folder = desk.dropped / "done" / report["run_id"]
    assert (report["state"], report["batch"]) == ("completed", "applicants")
    assert "expected    ₦" in (folder / "quote.txt").read_text()
    assert f"It cost ₦{report['cost']['total']}" in (folder / "result.txt").read_text()
    assert openpyxl.load_workbook(folder / "decisions.xlsx").active is not None
    assert list((desk.dropped / "taken").iterdir()) == []
    asked = len(desk.calls())
    for name in ("applicants-20260301.csv", "the same.csv"):
        shutil.copy(kept, desk.dropped / name)
        assert desk.run(desk.take()) is Fate.REPEATED
    assert desk.reports() == [report]
    assert len(desk.calls()) == asked
    assert [report["run_id"] in text for text in desk.told("already-screened.txt")] == [True] * 2
    for days, there in ((395, True), (397, False)):
        with open_journal(desk.folder / "home", clock=partial(_after, days)) as journal:
            purge(journal, due(journal, Retention()))
        assert (folder / "input" / "applicants-20260301.csv").exists() is there
    assert (folder / "report.html").exists()


def _after(days: int) -> int:
    return system_clock() + days * DAY_MICROS


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("broken.xlsx", b"PK\x03\x04 cut", "broken.xlsx: the workbook is damaged or cut short"),
        ("minutes.pdf", b"%PDF-1.7\n", "a PDF; give CSV, XLSX or Parquet"),
        ("empty.csv", b"", "the file is empty"),
        ("other.csv", b"weather,tide\nfine,low\n", "customer_id"),
    ],
)
def test_what_cannot_be_screened_is_told_in_plain_words(
    desk: Desk, name: str, content: bytes, said: str
) -> None:
    """Under the name that the file was dropped by; no run is left behind."""
    (desk.inbox.path / name).write_bytes(content)
    assert desk.run(desk.take()) is Fate.FAILED
    (text,) = desk.told("what-is-wrong.txt")
    assert said in text
    assert str(desk.folder) not in text
    assert desk.reports() == []
    assert len(list((desk.dropped / "failed").glob(f"*/{name}"))) == 1


def test_a_stopped_run_goes_on_when_its_file_is_dropped_again(desk: Desk) -> None:
    """The same run, with more money; nothing that was answered is paid for twice.

    Resumed, it lists its input among its files; an erasure takes that off the list.
    """
    desk.options = {"max_spend": "60"}
    kept = desk.drop("book.csv")
    assert desk.run(desk.take()) is Fate.SCREENED
    (stopped,) = desk.reports()
    assert stopped["stop_reason"] == "budget"
    desk.options = {"max_spend": "100000"}
    shutil.copy(kept, desk.dropped / "book.csv")
    assert desk.run(desk.take()) is Fate.SCREENED
    (report,) = desk.reports()
    assert (report["run_id"], report["state"]) == (stopped["run_id"], "completed")
    assert float(report["cost"]["total"]) == float(desk.charged)
    with open_journal(desk.folder / "home") as journal:
        erase(journal, find_person_data(journal, ErasureTarget(customer_id="C1")))
    folder = desk.dropped / "done" / report["run_id"]
    files = json.loads((folder / "manifest.json").read_text("utf-8"))["files"]
    assert "input/book.csv" not in files
    assert files
    for name, told in files.items():
        held = (folder / name).read_bytes()
        assert told["sha256"] == hashlib.sha256(held).hexdigest(), name


def test_a_run_that_ended_before_its_file_was_moved_is_not_repeated(desk: Desk) -> None:
    """The process died between the two: whoever watches next only moves the file.

    A name that names somebody goes no further, not into batch, paths or journal; whoever dropped
    the file is warned.
    """
    desk.drop("22912345678-loans.csv")
    ticket = desk.take()
    found = desk.look_into(ticket)
    assert isinstance(found, ToScreen)
    desk.screen(**found.parameters.model_dump())
    asked = len(desk.calls())
    found.content.release()
    ticket.release()
    (again,) = desk.inbox.orphaned_tickets()
    assert desk.run(again) is Fate.SCREENED
    assert len(desk.calls()) == asked
    (report,) = desk.reports()
    assert report["batch"] == "loans"
    assert (desk.dropped / "done" / report["run_id"] / "input" / "file.csv").exists()
    (said,) = desk.told("result.txt")
    assert "looked like a person's number" in said
    with sqlite3.connect(desk.folder / "home" / "journal.sqlite") as journal:
        assert "22912345678" not in str(journal.execute("SELECT * FROM runs").fetchall())


@pytest.mark.parametrize(
    ("decision", "fate", "place"),
    [
        (ApprovalDecision.APPROVED, Fate.SCREENED, "done"),
        (ApprovalDecision.REFUSED, Fate.FAILED, "failed"),
    ],
)
def test_a_file_that_waits_for_approval_is_gone_on_with_once_somebody_decided(
    desk: Desk, decision: ApprovalDecision, fate: Fate, place: str
) -> None:
    """It lies aside with its quote, and nothing is asked meanwhile, also where it comes again."""
    desk.settings["approval_above"], desk.runner = "1", AskingApproval
    kept = desk.drop("book.csv")
    assert desk.run(desk.take()) is Fate.WAITING
    (run_id,) = desk.inbox.waiting_runs()
    assert f"nightscreen approve {run_id}" in desk.told("waits-for-approval.txt")[0]
    assert (desk.dropped / "waiting" / run_id / "quote.txt").exists()
    shutil.copy(kept, desk.dropped / "book.csv")
    assert desk.run(desk.take()) is Fate.REPEATED
    assert decided_runs(desk.read_settings(), [run_id]) == []
    assert desk.calls() == []
    with open_journal(desk.folder / "home") as journal:
        Approvals(journal).decide(Actor("chief"), run_id, decision)
    assert decided_runs(desk.read_settings(), [run_id]) == [run_id]
    ticket = desk.inbox.take_waiting(run_id)
    assert ticket is not None
    assert desk.run(ticket) is fate
    assert (desk.dropped / place / run_id).exists()
    assert desk.inbox.waiting_runs() == []
    assert bool(desk.calls()) is (fate is Fate.SCREENED)


def test_a_content_that_is_being_screened_is_left_alone(desk: Desk) -> None:
    """Two files of one content are not screened at a time; the second waits for the first."""
    kept = desk.drop("book.csv")
    first = desk.look_into(desk.take())
    assert isinstance(first, ToScreen)
    shutil.copy(kept, desk.dropped / "the same.csv")
    assert desk.look_into(desk.take()) is Fate.HELD


def test_a_file_that_breaks_off_again_and_again_is_given_up(desk: Desk) -> None:
    """So that it does not keep the others waiting for ever."""
    desk.drop("book.csv")
    ticket = desk.take()
    for _ in range(MOST_ATTEMPTS):
        found = desk.look_into(ticket)
        assert isinstance(found, ToScreen)
        found.content.release()
        ticket.release()
        (ticket,) = desk.inbox.orphaned_tickets()
    assert desk.look_into(ticket) is Fate.FAILED
    assert "nightscreen doctor" in desk.told("what-is-wrong.txt")[0]
    assert not list(desk.folder.rglob("*.lock")), "its content is locked by nobody any more"


def reviewed(folder: Path, was: str = "", **cells: str) -> Path:
    """Return a night's decision list with a decision written into its first row that was so."""
    rows = csv_rows(folder / "decisions.csv")
    row = next(each for each in rows if was in each["decision"])
    row |= {"reviewer_decision": row["decision"], "reviewer": "Ada Obi", **cells}
    back = folder.parent / "came-back.csv"
    with back.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return back


def test_a_decision_list_that_came_back_is_imported_or_refused_whole(desk: Desk) -> None:
    """Dropped there, its reviews stand; it is no batch, and dropped again it is known.

    Of a mistaken one nothing is taken; the text names line, column and what to do, and no customer.
    """
    night = desk.screen([customer(number) for number in range(1, 60)])
    shutil.copy(reviewed(night.folder, reviewer_decision="maybe"), desk.dropped / "decisions.csv")
    assert desk.run(desk.take()) is Fate.FAILED
    (said,) = desk.told("what-is-wrong.txt")
    assert "line 2: reviewer_decision: Write approve, decline or review." in said
    back = reviewed(night.folder)
    for _ in range(2):
        shutil.copy(back, desk.dropped / "decisions.csv")
        assert desk.run(desk.take()) is Fate.IMPORTED
    again, first = sorted(desk.told("result.txt"))  # their folders may be of one second
    assert "1 review of this list imported" in first
    assert "0 reviews of this list imported; 1 known already" in again
    assert desk.reports() == []


def _workbook(rows: list[list[str]]) -> bytes:
    book, held = openpyxl.Workbook(), io.BytesIO()
    first = book.worksheets[0]
    for row in [["Book of March"], *rows]:
        first.append(row)
    other = book.create_sheet("Calls")
    for row in rows[1:]:
        other.append([row[rows[0].index("bvn")], "called"])
    book.save(held)
    return held.getvalue()


def _parquet(rows: list[list[str]]) -> bytes:
    held = io.BytesIO()
    columns = {name: [row[at] for row in rows[1:]] for at, name in enumerate(rows[0])}
    pq.write_table(pa.table(columns), held)
    return held.getvalue()


def _csv(rows: list[list[str]], separator: str = ",") -> str:
    held = io.StringIO()
    csv.writer(held, delimiter=separator).writerows(rows)
    return held.getvalue()


FORMS = {
    "book.csv": lambda rows: _csv(rows).encode(),
    "wide.csv": lambda rows: _csv(rows, "\t").encode("utf-16"),
    "book.parquet": _parquet,
    "book.xlsx": _workbook,
}


def test_erasing_reaches_the_dropped_file_in_every_format(desk: Desk) -> None:
    """It goes whole, wherever it was dealt with; one that waits is waited for.

    So do a text without headings in which a line names the person, and what nobody can read.
    """
    people = [customer(number) for number in range(1, 6)]
    gone = people[2]
    gone["first_name"] = 'Ola "Two\nLines"'
    whom = ErasureTarget(customer_id=gone["customer_id"])
    rows = [list(people[0]), *(list(each.values()) for each in people)]
    for fate in (Fate.SCREENED, Fate.REPEATED):
        (desk.dropped / "book.csv").write_bytes(FORMS["book.csv"](rows))
        assert desk.run(desk.take()) is fate
    (report,) = desk.reports()
    failed, waiting = desk.dropped / "failed", desk.dropped / "waiting" / "20260302-220000-abc"
    waiting.mkdir(parents=True)
    copies, others = [failed / "unread" / "cut.xlsx", failed / "text" / "notes.txt"], []
    for name in FORMS:
        copies += [
            failed / f"mine-{name}" / name,
            desk.dropped / "done" / report["run_id"] / "input" / name,
        ]
        others.append(failed / f"others-{name}" / name)
    contents = {name: form(rows) for name, form in FORMS.items()}
    of_others = [form(rows[:2]) for form in FORMS.values()]
    contents |= {"cut.xlsx": b"PK\x03\x04 broken", "notes.txt": f"call {gone['bvn']}".encode()}
    for path in (*copies, *others):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path in copies:
            path.write_bytes(contents[path.name])
    for path, content in zip(others, of_others, strict=True):
        path.write_bytes(content)
    dropped = [path for path in desk.dropped.rglob("book.csv") if path not in others]
    assert len(dropped) == 3
    copies += dropped
    with open_journal(desk.folder / "home") as journal:
        for name in FORMS:
            for place in (desk.dropped / name, waiting / name):
                place.write_bytes(contents[name])
                with pytest.raises(InputError, match="not screened yet"):
                    find_person_data(journal, whom, inbox=desk.dropped)
                assert all(path.exists() for path in copies)
                place.unlink()
        (waiting / ".ticket.json").write_text(json.dumps({"name": f"{gone['bvn']} book.csv"}))
        with pytest.raises(InputError, match="not screened yet"):
            find_person_data(journal, whom, inbox=desk.dropped)
        (waiting / ".ticket.json").unlink()
        done = erase(journal, find_person_data(journal, whom, inbox=desk.dropped))
    assert not [path for path in copies if path.exists()]
    assert [path.read_bytes() for path in others] == of_others
    places = {f"{report['run_id']}/{kept}" for kept in ("input/*", "decisions.xlsx")}
    assert {*done["removed_whole"]} >= places | {f"failed/mine-{each}" for each in FORMS} | {
        "failed/text"
    }
    assert done["removed_unread"] == ["failed/unread"]
    search = Search([gone["bvn"]])
    for path in desk.dropped.rglob("*"):
        assert not path.is_file() or not search.found_in(left_behind.content(path)), path


def test_a_refused_row_goes_from_the_input_after_its_quarantine_was_purged(desk: Desk) -> None:
    """The quarantine is kept for a month, the dropped file for a year: it has the person still.

    A cell of `12345` under the account is searched for nowhere: it may be another's exposure.
    """
    refused = {**customer(3), "bvn": "2291", "account_number": "12345", "phone": ""}
    people = [customer(1), customer(2), refused]
    rows = [list(people[0]), *(list(each.values()) for each in people)]
    (desk.dropped / "book.csv").write_text(_csv(rows))
    assert desk.run(desk.take()) is Fate.SCREENED
    (report,) = desk.reports()
    assert report["rows"]["quarantined"] == 1
    folder = desk.dropped / "done" / report["run_id"]
    others = desk.dropped / "failed" / "x" / "others.xlsx"
    others.parent.mkdir(parents=True)
    book = openpyxl.Workbook()
    sheet = book.create_sheet("Others")
    for row in (["customer_id", "bvn", "exposure"], ["OTHER-1", "22987654321", "12345"]):
        sheet.append(row)
    book.save(others)
    with open_journal(desk.folder / "home", clock=partial(_after, 31)) as journal:
        purge(journal, due(journal, Retention()))
        assert not (folder / "quarantine.csv").exists()
        whom = ErasureTarget(customer_id=refused["customer_id"])
        assert erase(journal, find_person_data(journal, whom, inbox=desk.dropped))["removed_whole"]
    assert not (folder / "input" / "book.csv").exists()
    assert others.exists()
