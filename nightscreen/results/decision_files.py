"""The decision list as files: CSV and a workbook out, either of them back from a spreadsheet in.

Rows come in order and typed; which they are is decided in `results/decision_list.py`, what a
returned row means in `results/reviews.py`. No cell is a formula, in either direction.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import xlsxwriter  # type: ignore[import-untyped]  # has no types
from xlsxwriter.exceptions import FileCreateError  # type: ignore[import-untyped]

from nightscreen.files.outputs import DECISIONS_CSV
from nightscreen.files.private_files import atomic_write
from nightscreen.files.quarantine import TRIGGERS, escape_formula
from nightscreen.reading.open_file import returned_tables
from nightscreen.schemas.clock import LAGOS
from nightscreen.schemas.decisions import (
    DECISION_COLUMNS,
    QUARANTINE_COLUMNS,
    REVIEW_COLUMNS,
    ReviewRow,
)
from nightscreen.schemas.errors import InputError, OutputError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from xlsxwriter.format import Format  # type: ignore[import-untyped]  # has no types
    from xlsxwriter.worksheet import Worksheet  # type: ignore[import-untyped]  # has no types

Cell = str | int | Decimal | date | datetime | None

COLUMNS = (*DECISION_COLUMNS, *REVIEW_COLUMNS)
PEOPLE = (
    *("customer_id", "customer_name", "decision", "exposure", "reason_text", "action"),
    *("karma_amount", *REVIEW_COLUMNS, "run_id"),
)
"""The columns that people work with, on the workbook's first sheet; the second has the rest."""
NEEDED_BACK = ("customer_id", "run_id", "reviewer_decision", "reviewer")
SHEET_ROWS = 1_048_575  # rows a sheet can hold below its headings
WORKBOOK_ROWS = 20_000
"""Rows of the list that the workbook holds, the first by rank: a program opens more only slowly."""

LONGEST_TEXT = 32_767  # characters that a cell of a workbook can hold

APPROVED_SHEET = "Approved"

_DANGEROUS = f"^'*[{TRIGGERS}]"
_LAGOS_OFFSET = pa.scalar(3600, pa.duration("s"))  # one hour before UTC all year, since 1919
_TITLES = {
    "customer_id": "Customer ID",
    "bvn_last4": "BVN, last four",
    "reason_code": "Reason",
    "reason_text": "Why",
    "action": "What to do",
    "karma_listed_by": "Blacklisted by",
    "karma_amount": "Blacklist: amount",
    "karma_type": "Blacklist: kind",
    "karma_reason": "Blacklist: reason",
    "karma_reporter": "Blacklist: reporter",
    "karma_default_date": "Blacklist: since",
    "run_id": "Run ID",
}
"""Headings of the workbook that are not the column's name with blanks in it."""


def title(column: str) -> str:
    """Return a column's heading in the workbook; the lender's own are as the file has them."""
    if column not in COLUMNS:
        return column
    return _TITLES.get(column, column.replace("_", " ").capitalize())


_OF_TITLE = {title(column).casefold(): column for column in COLUMNS}


def column_of(heading: str) -> str:
    """Return the column that a heading of a returned list means, in words or by name."""
    text = " ".join(heading.split()).casefold()
    return _OF_TITLE.get(text, text)


_ENOUGH_HEADINGS = 3  # how many of a list's headings make a row the one of headings

_DAY_FORMAT, _INSTANT_FORMAT = "yyyy-mm-dd", "yyyy-mm-dd hh:mm"
_WIDE = {"reason_text": 48, "action": 40, "review_note": 32, "customer_name": 28}
_WIDTH = 16
_WIDEST_SUMMARY = 44
_WORDS_TO_CHOOSE = ["approve", "decline", "review"]


@dataclass(frozen=True, slots=True)
class DecisionList:
    """The rows of a list, and what stands beside them in its workbook."""

    # their columns: `DECISION_COLUMNS`, those that come from the lender's file, and
    # `REVIEW_COLUMNS`, which are empty
    schema: pa.Schema
    tables: Iterable[pa.Table]  # the rows in the order of the list, some at a time; read once
    rows: int  # how many there are
    summary: Sequence[tuple[str, Cell]]  # names and values of the sheet that sums up
    approved: pa.Table  # approved rows, for a sheet of the workbook alone; columns as the list's
    fixes: Sequence[Sequence[Cell]] = ()  # line, column, code and hint of the rows to be fixed


def write_decision_files(
    csv_path: Path, workbook_path: Path, listed: DecisionList, scratch: Path
) -> None:
    """Write `decisions.csv` and `decisions.xlsx`; both appear whole, or neither does.

    Args:
        csv_path: where the CSV file is to appear.
        workbook_path: where the workbook is to appear.
        listed: the list.
        scratch: a private folder for the sheets while they are written.

    Raises:
        OutputError: the disk is full, or a folder cannot be written.
    """
    with (
        atomic_write(csv_path) as csv_part,
        atomic_write(workbook_path) as workbook_part,
        csv_part.open("wb") as file,
    ):
        file.write(csv_bytes(listed.schema.empty_table(), headings=True))
        try:
            with _Workbook(workbook_part, scratch, listed) as workbook:
                for table in listed.tables:
                    file.write(csv_bytes(table))
                    workbook.add(table)
        except FileCreateError as error:
            raise OutputError(
                f"cannot write {workbook_path}: {error}; free some disk, then resume the run"
            ) from None


def csv_bytes(rows: pa.Table, *, headings: bool = False, as_is: Collection[str] = ()) -> bytes:
    """Return rows as CSV: ISO dates, instants in Lagos time, text safe to open in a spreadsheet.

    Args:
        rows: the rows.
        headings: the names of the columns go first.
        as_is: columns of text that a program reads, which no guard may change.
    """
    cells = [
        column if name in as_is else _csv_column(column)
        for name, column in zip(rows.column_names, rows.columns, strict=True)
    ]
    safe = pa.table(cells, [escape_formula(name) for name in rows.column_names])
    sink = pa.BufferOutputStream()
    pa_csv.write_csv(safe, sink, pa_csv.WriteOptions(include_header=headings, eol="\r\n"))
    return bytes(sink.getvalue())


def _csv_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_timestamp(column.type):
        local = pc.add(column.cast(pa.timestamp("s"), safe=False), _LAGOS_OFFSET)
        return pc.strftime(local, format="%Y-%m-%dT%H:%M:%S+01:00")
    if pa.types.is_list(column.type):
        column = pc.binary_join(column, "; ")
    if not pa.types.is_string(column.type):
        return column
    dangerous = pc.match_substring_regex(column, _DANGEROUS)
    return pc.if_else(dangerous, pc.binary_join_element_wise("'", column, ""), column)


class _Workbook:
    """Writes the workbook: the list in two sheets, approved rows, a summary, the rows to be fixed.

    Args:
        path: the file to write.
        scratch: a private folder for the sheets while they are written.
        listed: the list; its rows are handed to `add`.
    """

    def __init__(self, path: Path, scratch: Path, listed: DecisionList) -> None:
        options = {
            "constant_memory": True,
            "tmpdir": str(scratch),
            "strings_to_formulas": False,
            "strings_to_urls": False,
            "strings_to_numbers": False,
            "default_date_format": _INSTANT_FORMAT,
        }
        self._book = xlsxwriter.Workbook(str(path), options)
        self._bold = self._book.add_format({"bold": True, "bottom": 1})
        self._day = self._book.add_format({"num_format": _DAY_FORMAT})
        self._instant = self._book.add_format({"num_format": _INSTANT_FORMAT})
        self._money = self._book.add_format({"num_format": '"₦"#,##0.00'})
        self._text = self._book.add_format({"num_format": "@"})
        self._listed = listed
        self._left = WORKBOOK_ROWS
        names = listed.schema.names
        rest = ["customer_id", *(name for name in names if name not in PEOPLE)]
        self._of_people = [names.index(name) for name in PEOPLE]
        self._of_details = [names.index(name) for name in rest]
        self._decisions = self._add_sheet("Decisions", PEOPLE)
        self._details = self._add_sheet("Details", rest)
        self._approved = self._add_sheet(APPROVED_SHEET, PEOPLE)
        self._rows: Counter[Worksheet] = Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Finish the workbook; of a failed one only what lies in the scratch folder is left."""
        if kind is None:
            self._finish()

    def add(self, table: pa.Table) -> None:
        """Add rows of the list, until the workbook is full."""
        table = table.slice(0, self._left)
        self._left -= table.num_rows
        self._add_rows(self._decisions, table)

    def _add_rows(self, sheet: Worksheet, table: pa.Table) -> None:
        """Add rows to a sheet of people's columns, and the rest of each to the one of details."""
        for cells in zip(*(each.to_pylist() for each in table.columns), strict=True):
            for to, places in ((sheet, self._of_people), (self._details, self._of_details)):
                self._rows[to] += 1
                self._write_row(to, self._rows[to], [cells[place] for place in places])

    def _finish(self) -> None:
        self._add_rows(self._approved, self._listed.approved)
        choice = {"validate": "list", "source": _WORDS_TO_CHOOSE, "ignore_blank": True}
        column = PEOPLE.index("reviewer_decision")
        for sheet in (self._decisions, self._approved):
            last = max(self._rows[sheet], 1)
            sheet.autofilter(0, 0, last, len(PEOPLE) - 1)
            sheet.data_validation(1, column, last, column, choice)
        last = max(self._rows[self._details], 1)
        self._details.autofilter(0, 0, last, len(self._of_details) - 1)
        self._add_summary()
        self._add_fixes()
        self._book.close()

    def _add_summary(self) -> None:
        lines = list(self._listed.summary)
        if self._listed.rows > WORKBOOK_ROWS:
            held = f"The first {WORKBOOK_ROWS:,} of {self._listed.rows:,} by rank"
            lines.append(("In this workbook", f"{held}; all are in {DECISIONS_CSV}"))
        sheet = self._book.add_worksheet("Summary")
        sheet.set_column(0, 1, _WIDEST_SUMMARY)
        for number, (name, value) in enumerate(lines):
            sheet.write_string(number, 0, name, self._bold)
            self._write_row(sheet, number, [value], first=1)

    def _add_fixes(self) -> None:
        fixes = self._listed.fixes
        for number, start in enumerate(range(0, len(fixes) or 1, SHEET_ROWS), start=1):
            part = fixes[start : start + SHEET_ROWS]
            name = "Fix" if number == 1 else f"Fix {number}"
            sheet = self._add_sheet(name, QUARANTINE_COLUMNS)
            for row, cells in enumerate(part, start=1):
                self._write_row(sheet, row, cells)
            sheet.autofilter(0, 0, max(len(part), 1), len(QUARANTINE_COLUMNS) - 1)

    def _add_sheet(self, name: str, columns: Sequence[str]) -> Worksheet:
        """Add a sheet with bold headings that stay in view."""
        sheet = self._book.add_worksheet(name)
        for number, column in enumerate(columns):
            sheet.set_column(number, number, _WIDE.get(column, _WIDTH), self._format_of(column))
            sheet.write_string(0, number, escape_formula(title(column)), self._bold)
        sheet.freeze_panes(1, 2 if "customer_id" in columns else 0)
        return sheet

    def _format_of(self, column: str) -> Format | None:
        if column == "reviewed_at":
            return self._day
        return self._text if column in {"customer_id", "bvn_last4", *REVIEW_COLUMNS} else None

    def _write_row(
        self, sheet: Worksheet, row: int, cells: Sequence[Cell], *, first: int = 0
    ) -> None:
        """Write cells by their types; nothing is ever taken for a formula or a link."""
        for column, value in enumerate(cells, start=first):
            match value:
                case None | "":
                    continue
                case str():
                    text = escape_formula(value)[:LONGEST_TEXT]
                    sheet.write_string(row, column, text, self._text)
                case datetime():
                    local = value.astimezone(LAGOS).replace(tzinfo=None)
                    sheet.write_datetime(row, column, local, self._instant)
                case date():
                    sheet.write_datetime(row, column, value, self._day)
                case Decimal():
                    sheet.write_number(row, column, value, self._money)
                case _:
                    sheet.write_number(row, column, value)


def is_returned(path: Path) -> bool:
    """Return whether a file is a decision list, by its headings; its rows may have mistakes."""
    try:
        next(_returned_rows(path), None)
    except (InputError, OSError):
        return False
    return True


def read_returned(path: Path) -> list[ReviewRow]:
    """Read a decision list that was worked on, whatever its columns' order.

    Rows of which all four reviewer columns are blank are left out. Cells have their formula guard
    taken off.

    Raises:
        InputError: it is no such list, or cannot be read.
    """
    rows = _returned_rows(path)
    return [row for row in rows if any(row[column] for column in REVIEW_COLUMNS)]


def _returned_rows(path: Path) -> Iterator[ReviewRow]:
    found = False
    for table in returned_tables(path, (*COLUMNS, *map(title, COLUMNS))):
        names = [column_of(heading) for heading in table.headings]
        known = {*names} & {*COLUMNS}
        if table.sheet and (len(known) < _ENOUGH_HEADINGS or not known & {*REVIEW_COLUMNS}):
            continue  # no sheet to decide on
        found = True
        if missing := [name for name in NEEDED_BACK if name not in names]:
            raise _no_list(path, missing)
        for line, cells in table.rows:
            yield ReviewRow(line, table.sheet, dict(zip(names, cells, strict=False)))
    if not found:
        raise _no_list(path, NEEDED_BACK)


def _no_list(path: Path, missing: Sequence[str]) -> InputError:
    return InputError(
        f"{path}: this is no decision list that came back: it lacks {', '.join(missing)}; keep the "
        "headings of decisions.csv or decisions.xlsx as they are"
    )
