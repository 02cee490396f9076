"""The decision list: who is on it, in which order, and that no cell is more than it seems."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightscreen.files.quarantine import quarantined, unescape_formula
from nightscreen.files.run_folder import RunFolder
from nightscreen.results import decision_list
from nightscreen.results.decision_files import (
    COLUMNS,
    PEOPLE,
    column_of,
    csv_bytes,
    read_returned,
)
from nightscreen.results.decision_list import ListCounts, heading, list_schema, write_decisions
from nightscreen.results.wording import RuleWords
from nightscreen.schemas.clock import LAGOS
from tests.results import enriched_in_a_test
from tests.results.enriched_in_a_test import enriched_row, listed, write_part
from tests.screening import csv_rows

REASONS = {
    "KARMA_BVN": {"decline": RuleWords("Listed by BVN.", "Do not lend: ask who reported it.")},
    "PAST_DUE": {
        "decline": RuleWords("Much is past due."),
        "review": RuleWords("Something is past due."),
    },
}
PROBLEMS = [("12", "bvn", "bvn_length", "A BVN has exactly 11 digits.")]


def write(tmp_path: Path, rows: Sequence[Mapping[str, Any]], **options: Any) -> ListCounts:  # noqa: ANN401 - as `write_decisions` takes them
    folder = RunFolder(tmp_path)
    part = write_part(tmp_path, rows)
    scratch = tmp_path.parent / f"{tmp_path.name}-scratch"
    scratch.mkdir(exist_ok=True)
    counts = write_decisions(
        folder, [part], run_id="run-1", reasons=REASONS, scratch=scratch, **options
    )
    assert list(scratch.iterdir()) == []
    return counts


def sheet(tmp_path: Path, name: str) -> list[list[Any]]:
    book = openpyxl.load_workbook(tmp_path / "decisions.xlsx")
    return [[cell.value for cell in row] for row in book[name].iter_rows()]


def test_a_full_name_goes_before_its_parts(tmp_path: Path) -> None:
    """Parts are joined only where the whole is absent; a file may have neither, nor a BVN."""
    part = write_part(tmp_path, [enriched_row(f"C{n}", decision="review") for n in range(3)])
    table = pq.read_table(part).drop_columns(["last_name", "bvn", "exposure"])
    pq.write_table(table.append_column("full_name", [["O. A. Tinubu", None, ""]]), part)
    write_decisions(RunFolder(tmp_path), [part], run_id="run-1", reasons=REASONS, scratch=tmp_path)
    found = csv_rows(tmp_path / "decisions.csv")
    assert [each["customer_name"] for each in found] == ["O. A. Tinubu", "Amaka", "Amaka"]
    assert {each["bvn_last4"] + each["exposure"] for each in found} == {""}


def test_approved_rows_are_not_on_the_list(tmp_path: Path) -> None:
    """Only what somebody has to work on is listed; the largest approved have a sheet of theirs."""
    words = ("approve", "decline", "review", "undecided", "review")
    counts = write(tmp_path, [enriched_row(f"C{n}", decision=w) for n, w in enumerate(words)])
    assert dict(counts.listed) == {"decline": 1, "review": 2, "undecided": 1}
    assert {row["customer_id"] for row in csv_rows(tmp_path / "decisions.csv")} == {
        "C1",
        "C2",
        "C3",
        "C4",
    }
    assert [row[0] for row in sheet(tmp_path, "Decisions")[1:]] == ["C1", "C2", "C3", "C4"]
    (approved,) = sheet(tmp_path, "Approved")[1:]
    assert (approved[0], approved[2], approved[5]) == ("C0", "approve", "Nothing is left to do.")


def test_the_sheet_of_approved_rows_has_the_largest_that_nobody_decided_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over all parts, worst exposure first, unknown ones last, up to so many; the summary says."""
    monkeypatch.setattr(decision_list, "APPROVED_ROWS", 3)
    monkeypatch.setattr(decision_list, "BLOCK_ROWS", 2)
    sizes = (5, 9, None, 7, 9)
    rows = [
        enriched_row(f"C{n}", decision="approve", exposure=None if s is None else Decimal(s))
        for n, s in enumerate(sizes)
    ]
    write(tmp_path, [*rows, enriched_row("D", decision="review", exposure=Decimal(99))])
    assert [row[0] for row in sheet(tmp_path, "Approved")[1:]] == ["C1", "C4", "C3"]
    said = {row[0]: row[1] for row in sheet(tmp_path, "Summary")}
    assert said["The largest approved (sheet Approved)"] == 3
    assert [row[0] for row in sheet(tmp_path, "Details")[1:]] == ["D", "C1", "C4", "C3"]
    monkeypatch.setattr(decision_list, "APPROVED_ROWS", 9)
    write(tmp_path, rows)
    found = [row[0] for row in sheet(tmp_path, "Approved")[1:]]
    assert sorted(found) == ["C0", "C1", "C2", "C3", "C4"]


def test_worst_exposure_comes_first_and_unknown_between(tmp_path: Path) -> None:
    """A blank exposure is not zero: it stands where the middle of the known ones does."""
    exposures = [Decimal(100), None, Decimal(900), Decimal(500), Decimal(0)]
    rows = [
        enriched_row(f"C{n}", decision="review", exposure=each) for n, each in enumerate(exposures)
    ]
    write(tmp_path, rows)
    assert [row["customer_id"] for row in csv_rows(tmp_path / "decisions.csv")] == [
        "C2",
        "C3",
        "C1",
        "C0",
        "C4",
    ]


def test_the_listing_shown_is_the_one_by_bvn_with_its_own_amount(tmp_path: Path) -> None:
    """What declined stands on the list, not a larger listing of a phone that others use too."""
    own, phones = listed("7000"), listed("900000", kind="phone", reporter="Palm Credit")
    both = {
        **own,
        "karma_listings": [*phones["karma_listings"], *own["karma_listings"]],
        "karma_listed_by": ["phone", "bvn"],
        "karma_amount_in_contention": Decimal(900_000),
    }
    write(tmp_path, [enriched_row("A", decision="decline", reasons=["KARMA_BVN"], **both)])
    found = csv_rows(tmp_path / "decisions.csv")[0]
    assert (found["karma_reporter"], found["karma_amount"]) == ("Harbour Finance", "7000.00")
    assert found["karma_listed_by"] == "phone, bvn"


def test_columns_the_policy_carries_stand_on_the_list(tmp_path: Path) -> None:
    """A branch's own name and a contact are there to work by; a column of ours keeps its name."""
    row = enriched_row("A", decision="review", phone="+2348031112223")
    write(tmp_path, [row], carried=("phone", "branch"))
    assert csv_rows(tmp_path / "decisions.csv")[0]["phone"] == "'+2348031112223"
    headings, cells = sheet(tmp_path, "Details")
    assert (headings[-1], cells[-1]) == ("phone", "'+2348031112223")
    assert "input_action" in list_schema(("action",)).names


@pytest.mark.parametrize("name", ["previous_decision", "Change"])
def test_a_column_of_the_file_may_bear_a_name_of_the_list(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lender's own text stands beside what the list says under that name."""
    schema = enriched_in_a_test.SCHEMA.append(pa.field(name, pa.string()))
    monkeypatch.setattr(enriched_in_a_test, "SCHEMA", schema)
    row = enriched_row("A", decision="review", **{name: "own words"})
    write(tmp_path, [row], carried=(name,))
    (found,) = csv_rows(tmp_path / "decisions.csv")
    assert found[heading(name)] == "own words"
    assert "own words" not in (found["change"], found["previous_decision"], found["karma_type"])


def test_the_list_shows_no_other_identifier(tmp_path: Path) -> None:
    """Neither BVN, account nor phone is in either file; a malformed BVN shows no digits."""
    rows = [
        enriched_row("A", decision="review", phone="+2348031112223"),
        enriched_row("B", decision="review", bvn="9988776655"),
    ]
    write(tmp_path, rows)
    text = (tmp_path / "decisions.csv").read_text("utf-8")
    with zipfile.ZipFile(tmp_path / "decisions.xlsx") as archive:
        text += "".join(archive.read(name).decode() for name in archive.namelist())
    secrets = ("22212345678", "0123456789", "8031112223", "9988776655", "6655")
    assert not any(secret in text for secret in secrets)


NASTY = [
    "=1+1",
    "@SUM(A1)",
    "+44",
    "-2",
    '=HYPERLINK("http://x")',
    "\t=1",
    "'=1",
    "https://x.example",
]


def test_nothing_in_either_file_is_a_formula_or_link(tmp_path: Path) -> None:
    """Cells that a spreadsheet might run are text there, and come back as they were."""
    rows = [enriched_row(each, decision="review", first_name=each) for each in NASTY]
    write(tmp_path, rows, problems=[("3", "=cmd", "code", "=hint")])
    book = openpyxl.load_workbook(tmp_path / "decisions.xlsx")
    kinds = {cell.data_type for ws in book.worksheets for row in ws.iter_rows() for cell in row}
    assert "f" not in kinds
    assert not any(cell.hyperlink for row in book["Decisions"].iter_rows() for cell in row)
    back = [row["customer_id"] for row in csv_rows(tmp_path / "decisions.csv")]
    assert sorted(map(unescape_formula, back)) == sorted(NASTY)
    assert not any(cell[:1] in "=+-@\t" for cell in back)


def test_the_workbook_has_text_dates_filters_and_frozen_headings(tmp_path: Path) -> None:
    """Identifiers are text with their zeros, dates real dates, the headings stay in view."""
    row = enriched_row("0007", decision="decline", bvn="22212340008", **listed())
    write(tmp_path, [row], problems=PROBLEMS)
    book = openpyxl.load_workbook(tmp_path / "decisions.xlsx")
    assert book.sheetnames == ["Decisions", "Details", "Approved", "Summary", "Fix"]
    ws, details = book["Decisions"], book["Details"]
    assert [column_of(str(cell.value)) for cell in ws[1]] == list(PEOPLE)
    assert len(PEOPLE) == 12
    rest = [column_of(str(cell.value)) for cell in details[1]]
    assert sorted([*PEOPLE, *rest]) == sorted(["customer_id", *COLUMNS])
    cells = dict(zip(rest, [cell.value for cell in details[2]], strict=True))
    assert cells["customer_id"] == "0007"
    assert cells["bvn_last4"] == "0008"
    assert cells["karma_default_date"] == datetime(2024, 5, 17)  # noqa: DTZ001 - a sheet has no zones
    assert cells["evidence_as_of"] == datetime(2026, 3, 1, 23, 0)  # noqa: DTZ001 - Lagos time
    assert ws.freeze_panes == "C2"
    assert ws.auto_filter.ref == "A1:L2"
    assert ws["A1"].value == "Customer ID"
    assert ws.cell(2, PEOPLE.index("karma_amount") + 1).number_format.startswith('"₦"')
    assert sheet(tmp_path, "Fix")[1] == [12, "bvn", "bvn_length", "A BVN has exactly 11 digits."]


def test_the_workbook_holds_the_first_by_rank_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more than it can well show, whatever their decision; the CSV file has all."""
    monkeypatch.setattr(decision_list, "WORKBOOK_ROWS", 3)
    rows = [
        enriched_row(f"C{n}", decision=("review", "undecided")[n % 2], exposure=Decimal(n))
        for n in range(5)
    ]
    write(tmp_path, rows)
    assert sorted(read_back(tmp_path)) == ["C2", "C3", "C4"]
    assert len(csv_rows(tmp_path / "decisions.csv")) == 5
    said = {row[0]: row[1] for row in sheet(tmp_path, "Summary")}
    assert said["In this workbook"] == "The first 3 of 5 by rank; all are in decisions.csv"
    monkeypatch.setattr(decision_list, "WORKBOOK_ROWS", 5)
    write(tmp_path, rows)
    assert "In this workbook" not in {row[0] for row in sheet(tmp_path, "Summary")}


def read_back(tmp_path: Path) -> list[str]:
    """Return the customers of a workbook in which every row was reviewed."""
    path = tmp_path / "decisions.xlsx"
    book = openpyxl.load_workbook(path)
    column = PEOPLE.index("reviewer_decision") + 1
    for row in range(2, book["Decisions"].max_row + 1):
        book["Decisions"].cell(row, column, "approve")
    book.save(path)
    return [row["customer_id"] for row in read_returned(path)]


def test_quarantine_gives_only_where_and_why(tmp_path: Path) -> None:
    """Of a refused row no value is taken, whatever its columns are called."""
    path = tmp_path / "quarantine.csv"
    path.write_text('Name,line,line,column,code,hint\n"A, B",9,4,bvn,bvn_length,"Short, it is"\n')
    assert list(quarantined(path)) == [("4", "bvn", "bvn_length", "Short, it is")]
    assert list(quarantined(tmp_path / "none.csv")) == []


AWKWARD = st.sampled_from(
    ["", "=1+1", "'=1", " a", "a ", "a,b", 'say "x"', "a\nb", "a\r\nb", "<&>", "_x0041_", "\uff1d"]
)
TEXT = st.none() | AWKWARD | st.text(st.characters(blacklist_categories=["Cs", "Cc"]), max_size=12)
INSTANTS = st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - bounds have no zone


@given(st.lists(st.tuples(TEXT, st.none() | INSTANTS), max_size=8))
def test_csv_comes_back_exactly(rows: list[tuple[str | None, datetime | None]]) -> None:
    """Guards and quotes hide no character and cost none; instants are Lagos time to the second."""
    table = pa.table(
        {
            "text": pa.array([text for text, _ in rows], pa.string()),
            "at": pa.array([at for _, at in rows], pa.timestamp("us", "UTC")),
        }
    )
    written = csv_bytes(table, headings=True).decode()
    found = list(csv.reader(io.StringIO(written, newline="")))
    assert found[0] == ["text", "at"]
    assert [unescape_formula(text) for text, _ in found[1:]] == [text or "" for text, _ in rows]
    assert not any(text[:1] in tuple("=+-@\t\uff1d") for text, _ in found[1:])
    instants = [
        at.astimezone(LAGOS).replace(microsecond=0).isoformat() if at else "" for _, at in rows
    ]
    assert [at for _, at in found[1:]] == instants


def test_a_column_that_a_program_reads_has_no_guard() -> None:
    """A phone number stays a phone number; the text beside it is guarded."""
    table = pa.table({"phone": ["+2348031112223"], "name": ["+x"]})
    assert csv_bytes(table, as_is=["phone"]) == b'"+2348031112223","\'+x"\r\n'
