"""`nightscreen review import` and `runs release`: lists come back as spreadsheets save them."""

from __future__ import annotations

import csv
import shutil
import subprocess
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from nightscreen.results.decision_files import PEOPLE
from nightscreen.schemas.clock import LAGOS
from tests.cli.conftest import Here
from tests.screening import csv_rows

SPREADSHEET = shutil.which("soffice")
TODAY = datetime.now(LAGOS).date()
REVIEWED: dict[str, dict[str, Any]] = {
    "0007": {"reviewer_decision": "Decline", "reviewer": "Ngozi Eze"},
    "'=1+1": {
        "reviewer_decision": "approve",
        "reviewer": "Ade O'Neil",
        "review_note": "Payslip seen",
        "reviewed_at": TODAY,
    },
}


def fill(path: Path, words: Mapping[str, Mapping[str, Any]]) -> None:
    """Write reviewers' cells into a workbook, by customer, as a person would."""
    book = openpyxl.load_workbook(path)
    for sheet in (book["Decisions"], book["Approved"]):
        for row in sheet.iter_rows(min_row=2):
            for name, value in words.get(str(row[0].value), {}).items():
                sheet.cell(row[0].row or 0, PEOPLE.index(name) + 1, value)
    book.save(path)


def test_a_filled_workbook_comes_back(listed: Path, here: Here) -> None:
    """Each sheet to decide on is read, the guard taken off the id, and a second import is idle."""
    book = listed / "decisions.xlsx"
    fill(book, REVIEWED)
    first, second = (here("review", "import", str(book), "--json") for _ in range(2))
    assert (first.status, first.document["mistakes"]) == (0, [])
    assert (first.document["imported"], first.document["overrides"]) == (2, 1)
    assert (second.status, second.document["imported"]) == (0, 0)
    assert second.document["already_known"] == 2


def test_a_csv_that_was_rearranged_comes_back(listed: Path, here: Here) -> None:
    rows = csv_rows(listed / "decisions.csv")
    names = list(reversed(rows[0]))
    returned = listed / "returned.csv"
    with returned.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, names, delimiter=";")
        writer.writeheader()
        for row in rows:
            file.write(";" * (len(names) - 1) + "\r\n")
            word = {"reviewer_decision": "APPROVED", "reviewer": "Ngozi", "review_note": "Seen; ok"}
            writer.writerow({**row, **word, "reviewed_at": f"{TODAY:%Y-%m-%d}"})
    ended = here("review", "import", str(returned), "--json")
    assert (ended.status, ended.document["imported"], ended.document["mistakes"]) == (0, 2, [])


def test_mistakes_are_listed_and_nothing_is_imported(listed: Path, here: Here) -> None:
    """Line, sheet, column and hint of each; exit status 2; --partial takes in the rest.

    What is no list is refused in one line.
    """
    wrong = {**REVIEWED, "0007": {"reviewer_decision": "no idea", "reviewer": "Ngozi"}}
    fill(listed / "decisions.xlsx", wrong)
    words = ("review", "import", str(listed / "decisions.xlsx"), "--json")
    ended = here(*words)
    assert (ended.status, ended.document["imported"]) == (2, 0)
    assert ended.document["mistakes"] == [
        {
            "line": 2,
            "sheet": "Decisions",
            "column": "reviewer_decision",
            "code": "decision_invalid",
            "hint": "Write approve, decline or review.",
        }
    ]
    ended = here(*words, "--partial")
    assert (ended.status, ended.document["imported"]) == (2, 1)
    path = listed / "other.csv"
    for content in (b"", b"a,b\n1,2\n", b"PK\x03\x04 cut short", b"customer_id,reviewer\n1,N\n"):
        path.write_bytes(content)
        ended = here("review", "import", str(path))
        assert (ended.status, ended.err.count("\n")) == (2, 1), content


@pytest.mark.skipif(SPREADSHEET is None, reason="no LibreOffice on this machine")
@pytest.mark.parametrize("form", ["xlsx", "csv"])
def test_libreoffice_opens_saves_and_gives_it_back(listed: Path, here: Here, form: str) -> None:
    fill(listed / "decisions.xlsx", REVIEWED)
    book = openpyxl.load_workbook(listed / "decisions.xlsx")
    for name in ("Summary", "Details"):
        del book[name]
    book.active = 0
    book.save(listed / "reviewed.xlsx")
    profile = f"-env:UserInstallation=file://{listed / 'profile'}"
    places = ("--outdir", str(listed / "saved"), str(listed / "reviewed.xlsx"))
    command = [str(SPREADSHEET), profile, "--headless", "--convert-to", form, *places]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    ended = here("review", "import", str(listed / "saved" / f"reviewed.{form}"), "--json")
    assert (ended.status, ended.document["imported"], ended.document["mistakes"]) == (0, 1, [])
