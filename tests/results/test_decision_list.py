"""The decision list: who is on it, in which order, and that no cell is more than it seems."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from nightscreen.results.decision_list import ListCounts, write_decisions
from nightscreen.results.wording import RuleWords
from nightscreen.schemas.clock import LAGOS
from nightscreen.schemas.errors import OutputError
from tests.results import enriched_in_a_test
from tests.results.enriched_in_a_test import enriched_row, listed, write_part
from tests.screening import csv_rows

REASONS = {"KARMA_BVN": {"decline": RuleWords("Listed by BVN.", "Do not lend.")}}
PROBLEM = ("12", "bvn", "bvn_length", "A BVN has exactly 11 digits.")
CARRIED = ("phone", "previous_decision", "Change")
"""Columns of the file: the last two have the names of columns of the list."""


@dataclass(frozen=True)
class Written:
    """A list that was written."""

    folder: Path
    counts: ListCounts

    @property
    def rows(self) -> dict[str, dict[str, str]]:
        return {row["customer_id"]: row for row in csv_rows(self.folder / "decisions.csv")}

    @property
    def book(self) -> openpyxl.Workbook:
        return openpyxl.load_workbook(self.folder / "decisions.xlsx")

    def sheet(self, name: str) -> list[list[Any]]:
        return [[cell.value for cell in row] for row in self.book[name].iter_rows()]

    def ids(self, name: str) -> list[Any]:
        return [row[0] for row in self.sheet(name)[1:]]

    @property
    def summary(self) -> dict[str, Any]:
        return {row[0]: row[1] for row in self.sheet("Summary")}


def write(
    folder: Path,
    rows: Sequence[Mapping[str, Any]],
    problems: Sequence[tuple[str, ...]] = (PROBLEM,),
) -> Written:
    part, scratch = write_part(folder, rows), folder / "scratch"
    scratch.mkdir(exist_ok=True)
    counts = write_decisions(
        RunFolder(folder),
        [part],
        run_id="run-1",
        reasons=REASONS,
        scratch=scratch,
        carried=CARRIED,
        problems=problems,
    )
    assert list(scratch.iterdir()) == []
    return Written(folder, counts)


@pytest.mark.parametrize(
    ("met", "raised"), [(OSError, OutputError), (KeyboardInterrupt, KeyboardInterrupt)]
)
def test_what_ends_the_reading_of_rows_is_reported_as_it_is(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    met: type[BaseException],
    raised: type[BaseException],
) -> None:
    """DuckDB reads the rows while it counts them: a fault of the disk is no error of its own."""

    def broken(*_: object) -> None:
        raise met

    monkeypatch.setattr(decision_list, "read_customers", broken)
    with pytest.raises(raised):
        write(tmp_path, ROWS)


def naira(amount: int | None) -> dict[str, Any]:
    return {"exposure": None if amount is None else Decimal(amount)}


OWN, PHONES = listed("7000"), listed("900000", kind="phone", reporter="Palm Credit")
BOTH = {
    **OWN,
    "karma_listings": [*PHONES["karma_listings"], *OWN["karma_listings"]],
    "karma_listed_by": ["phone", "bvn"],
    "karma_amount_in_contention": Decimal(900_000),
    "bvn": "22212340008",
}
ROWS = [
    *(
        enriched_row(f"A{number}", decision="approve", **naira(owed))
        for number, owed in enumerate((5, 9, None, 7, 9))
    ),
    enriched_row("small", decision="review", phone="+2348031112223", **naira(100)),
    enriched_row("unknown", decision="undecided", **naira(None)),
    enriched_row("0007", decision="decline", reasons=["KARMA_BVN"], **BOTH, **naira(900)),
    enriched_row("middle", decision="review", bvn="9988776655", **naira(500)),
    enriched_row("none", decision="review", **naira(0), previous_decision="mine", Change="mine"),
]
BY_RANK = ["0007", "middle", "unknown", "small", "none"]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A list of more rows than its workbook and its sheet of approved rows take; read only."""
    extra = [pa.field(name, pa.string()) for name in CARRIED[1:]]
    schema = pa.schema([*enriched_in_a_test.SCHEMA, *extra])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(enriched_in_a_test, "SCHEMA", schema)
        for name, most in (("WORKBOOK_ROWS", 3), ("APPROVED_ROWS", 3), ("BLOCK_ROWS", 2)):
            patch.setattr(decision_list, name, most)
        return write(tmp_path_factory.mktemp("list"), ROWS)


def test_the_list_has_whom_to_look_at_and_what_to_work_by(found: Written) -> None:
    """All but approved rows, worst exposure first; a blank one stands where the middle one does.

    Of listings the one by BVN is shown, with its own amount: it declined, not a larger one of a
    phone that others use too. A column with a name of the list's own stands beside it.
    """
    assert list(found.rows) == BY_RANK
    assert dict(found.counts.listed) == {"decline": 1, "review": 3, "undecided": 1}
    row, own = found.rows["0007"], found.rows["none"]
    assert (row["karma_reporter"], row["karma_amount"]) == ("Harbour Finance", "7000.00")
    assert (row["karma_listed_by"], row["bvn_last4"]) == ("phone, bvn", "0008")
    assert found.rows["small"]["phone"] == "'+2348031112223"
    assert (own["input_previous_decision"], own["Change"]) == ("mine", "mine")
    assert "mine" not in (own["change"], own["previous_decision"], own["karma_type"])
    assert "phone" in found.sheet("Details")[0]


def test_the_list_shows_no_other_identifier(found: Written) -> None:
    """Neither BVN nor account is in either file; a malformed BVN shows no digits."""
    text = (found.folder / "decisions.csv").read_text("utf-8")
    with zipfile.ZipFile(found.folder / "decisions.xlsx") as archive:
        text += "".join(archive.read(name).decode() for name in archive.namelist())
    secrets = ("22212345678", "22212340008", "0123456789", "9988776655", "6655")
    assert not any(secret in text for secret in secrets)


def test_the_workbook_holds_the_first_by_rank_and_the_largest_approved(
    found: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more than it can well show, and says so; what fits is there whole."""
    assert found.ids("Decisions") == BY_RANK[:3]
    assert found.ids("Approved") == ["A1", "A4", "A3"]
    assert found.ids("Details") == [*BY_RANK[:3], "A1", "A4", "A3"]
    approved = found.sheet("Approved")[1]
    assert (approved[2], approved[5]) == ("approve", "Nothing is left to do.")
    limit, largest = "In this workbook", "The largest approved (sheet Approved)"
    assert found.summary[limit] == "The first 3 of 5 by rank; all are in decisions.csv"
    assert found.summary[largest] == 3
    monkeypatch.setattr(decision_list, "WORKBOOK_ROWS", 5)
    whole = write(tmp_path, ROWS)
    assert whole.ids("Decisions") == BY_RANK
    assert whole.ids("Approved") == ["A1", "A4", "A3", "A0", "A2"]
    assert limit not in whole.summary


def test_the_workbook_has_text_dates_filters_and_frozen_headings(found: Written) -> None:
    """Identifiers are text with their zeros, dates real dates, the headings stay in view."""
    book = found.book
    assert book.sheetnames == ["Decisions", "Details", "Approved", "Summary", "Fix"]
    sheet, details = book["Decisions"], found.sheet("Details")
    assert [column_of(str(cell.value)) for cell in sheet[1]] == list(PEOPLE)
    assert len(PEOPLE) == 12
    rest = [column_of(str(each)) for each in details[0]][: -len(CARRIED)]
    assert sorted([*PEOPLE, *rest]) == sorted(["customer_id", *COLUMNS])
    cells = dict(zip(rest, details[1], strict=False))
    assert (cells["customer_id"], cells["bvn_last4"]) == ("0007", "0008")
    assert cells["karma_default_date"] == datetime(2024, 5, 17)  # noqa: DTZ001 - a sheet has no zones
    assert cells["evidence_as_of"] == datetime(2026, 3, 1, 23, 0)  # noqa: DTZ001 - Lagos time
    assert (sheet.freeze_panes, sheet.auto_filter.ref) == ("C2", "A1:L4")
    assert sheet["A1"].value == "Customer ID"
    assert sheet.cell(2, PEOPLE.index("karma_amount") + 1).number_format.startswith('"₦"')
    assert found.sheet("Fix")[1] == [12, *PROBLEM[1:]]


def test_a_workbook_in_which_every_row_was_reviewed_is_read_back(
    found: Written, tmp_path: Path
) -> None:
    """Rows of its first sheet alone: none of the approved ones."""
    book, path = found.book, tmp_path / "reviewed.xlsx"
    for row in range(2, book["Decisions"].max_row + 1):
        book["Decisions"].cell(row, PEOPLE.index("reviewer_decision") + 1, "approve")
    book.save(path)
    assert [row["customer_id"] for row in read_returned(path)] == BY_RANK[:3]


def test_a_full_name_goes_before_its_parts(tmp_path: Path) -> None:
    """Parts are joined only where the whole is absent; a file may have neither, nor a BVN."""
    part = write_part(tmp_path, [enriched_row(f"C{n}", decision="review") for n in range(3)])
    table = pq.read_table(part).drop_columns(["last_name", "bvn", "exposure"])
    pq.write_table(table.append_column("full_name", [["O. A. Tinubu", None, ""]]), part)
    write_decisions(RunFolder(tmp_path), [part], run_id="run-1", reasons=REASONS, scratch=tmp_path)
    rows = csv_rows(tmp_path / "decisions.csv")
    assert [each["customer_name"] for each in rows] == ["O. A. Tinubu", "Amaka", "Amaka"]
    assert {each["bvn_last4"] + each["exposure"] for each in rows} == {""}


NASTY = [
    *("=1+1", "@SUM(A1)", "+44", "-2", '=HYPERLINK("http://x")', "\t=1", "'=1"),
    "https://x.example",
]


def test_nothing_in_either_file_is_a_formula_or_link(tmp_path: Path) -> None:
    """Cells that a spreadsheet might run are text there, and come back as they were."""
    rows = [enriched_row(each, decision="review", first_name=each) for each in NASTY]
    written = write(tmp_path, rows, problems=[("3", "=cmd", "code", "=hint")])
    cells = [cell for sheet in written.book.worksheets for row in sheet.iter_rows() for cell in row]
    assert not any(cell.data_type == "f" or cell.hyperlink for cell in cells)
    assert sorted(map(unescape_formula, written.rows)) == sorted(NASTY)
    assert not any(cell[:1] in "=+-@\t" for cell in written.rows)


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
    """Guards and quotes hide no character and cost none; instants are Lagos time to the second.

    A column that a program reads has no guard.
    """
    texts, times = [text for text, _ in rows], [at for _, at in rows]
    table = pa.table(
        {
            "=text": pa.array(texts, pa.string()),
            "at": pa.array(times, pa.timestamp("us", "UTC")),
            "plain": pa.array(texts, pa.string()),
        }
    )
    written = csv_bytes(table, headings=True, as_is=["plain"]).decode()
    heads, *back = csv.reader(io.StringIO(written, newline=""))
    assert heads == ["'=text", "at", "plain"]
    expected = [text or "" for text in texts]
    assert [unescape_formula(row[0]) for row in back] == expected == [row[2] for row in back]
    assert not any(row[0][:1] in tuple("=+-@\t\uff1d") for row in back)
    assert [row[1] for row in back] == [
        at.astimezone(LAGOS).replace(microsecond=0).isoformat() if at else "" for at in times
    ]
