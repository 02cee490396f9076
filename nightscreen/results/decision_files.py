"""Write the decision list as CSV and as a workbook, and read back a list that people worked on.

`results/decision_list.py` chooses and orders the rows, `results/reviews.py` interprets returned
rows. No cell is a formula, in either direction.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import xlsxwriter  # type: ignore[import-untyped]  # has no types
from xlsxwriter.exceptions import FileCreateError  # type: ignore[import-untyped]

from nightscreen.files.quarantine import TRIGGERS, escape_formula
from nightscreen.reading.open_file import returned_tables
from nightscreen.schemas.clock import LAGOS
from nightscreen.schemas.decisions import (
    DECISION_COLUMNS,
    QUARANTINE_COLUMNS,
    REVIEW_COLUMNS,
    ReviewRow,
)
from nightscreen.schemas.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from xlsxwriter.format import Format  # type: ignore[import-untyped]  # has no types
    from xlsxwriter.worksheet import Worksheet  # type: ignore[import-untyped]  # has no types

Cell = str | int | Decimal | date | datetime | None

COLUMNS = (*DECISION_COLUMNS, *REVIEW_COLUMNS)
PEOPLE = (
    *("customer_id", "customer_name", "decision", "exposure", "reason_text", "action"),
    *("karma_amount", *REVIEW_COLUMNS, "run_id"),
)
"""The columns that people work with, on the workbook's first sheet; the second has the others."""
NEEDED_BACK = ("customer_id", "run_id", "reviewer_decision", "reviewer")
WORKBOOK_ROWS = 20_000
"""Most rows in the workbook, the first by rank: spreadsheet programs open more only slowly."""

LONGEST_TEXT = 32_767  # the most characters that a workbook's cell can hold

APPROVED_SHEET = "Approved"

_DANGEROUS = f"^'*[{TRIGGERS}]"
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
"""Headings of the workbook that are not just the column's name with spaces."""


def title(column: str) -> str:
    """Return a column's heading in the workbook; the lender's own headings are unchanged."""
    if column not in COLUMNS:
        return column
    return _TITLES.get(column, column.replace("_", " ").capitalize())


_COLUMN_BY_TITLE = {title(column).casefold(): column for column in COLUMNS}


def column_of(heading: str) -> str:
    """Return the column of a returned list's heading, which may be its title or its name."""
    text = " ".join(heading.split()).casefold()
    return _COLUMN_BY_TITLE.get(text, text)


_ENOUGH_HEADINGS = 3  # a row with this many of the list's headings is its heading row

_WORKBOOK = {
    "constant_memory": True,
    "strings_to_formulas": False,
    "strings_to_urls": False,
    "strings_to_numbers": False,
    "default_date_format": "yyyy-mm-dd hh:mm",
}
_FORMATS = {
    "head": {"bold": True, "bottom": 1},
    "day": {"num_format": "yyyy-mm-dd"},
    "instant": {"num_format": "yyyy-mm-dd hh:mm"},
    "money": {"num_format": '"₦"#,##0.00'},
    "text": {"num_format": "@"},
}
_STYLES = {
    **dict.fromkeys(("customer_id", "bvn_last4", *REVIEW_COLUMNS), "text"),
    "reviewed_at": "day",
}
"""Formats of columns that people fill in, and of digits that are text."""
_WIDE = {"reason_text": 48, "action": 40, "review_note": 32, "customer_name": 28}
_WIDTH = 16  # characters: an instant has as many, `yyyy-mm-dd hh:mm`
_WIDEST_SUMMARY = 44  # characters, of both columns: the longest name of a line fits
_CHOICES = ["approve", "decline", "review"]


def csv_bytes(rows: pa.Table, *, headings: bool = False, as_is: Collection[str] = ()) -> bytes:
    """Return rows as CSV: ISO dates, instants in Lagos time, text safe to open in a spreadsheet.

    Args:
        rows: the rows.
        headings: whether the names of the columns are the first line.
        as_is: text columns for programs, which the formula guard must not change.
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
        # Lagos is UTC+1 all year, since 1919; Arrow's own conversion would load pandas
        offset = pa.scalar(3600, pa.duration("s"))
        local = pc.add(column.cast(pa.timestamp("s"), safe=False), offset)
        return pc.strftime(local, format="%Y-%m-%dT%H:%M:%S+01:00")
    if pa.types.is_list(column.type):
        column = pc.binary_join(column, "; ")
    if not pa.types.is_string(column.type):
        return column
    dangerous = pc.match_substring_regex(column, _DANGEROUS)
    return pc.if_else(dangerous, pc.binary_join_element_wise("'", column, ""), column)


def write_workbook(
    path: Path,
    scratch: Path,
    *,
    rows: pa.Table,
    approved: pa.Table,
    summary: Sequence[tuple[str, Cell]],
    fixes: Sequence[Sequence[Cell]],
) -> None:
    """Write the workbook: the list in two sheets, approved rows, a summary, the rows to be fixed.

    Args:
        path: the file to write.
        scratch: a private folder for the sheets while they are written.
        rows: the rows of the list, in its order.
        approved: approved rows, in the list's columns, for a sheet of their own.
        summary: names and values of the summary sheet.
        fixes: line, column, code and hint of the rows to be fixed.

    Raises:
        OSError: the disk is full, or the folder cannot be written.
    """
    book = xlsxwriter.Workbook(str(path), {**_WORKBOOK, "tmpdir": str(scratch)})
    formats = {kind: book.add_format(style) for kind, style in _FORMATS.items()}
    rest = ["customer_id", *(name for name in rows.column_names if name not in PEOPLE)]
    choice = {"validate": "list", "source": _CHOICES, "ignore_blank": True}
    chosen = PEOPLE.index("reviewer_decision")

    def add_sheet(name: str, columns: Sequence[str], cells: Iterable[Sequence[Cell]]) -> None:
        """Add a sheet with frozen bold headings and filters."""
        sheet, last = book.add_worksheet(name), 0
        for number, column in enumerate(columns):
            style = formats.get(_STYLES.get(column, ""))
            sheet.set_column(number, number, _WIDE.get(column, _WIDTH), style)
            sheet.write_string(0, number, escape_formula(title(column)), formats["head"])
        sheet.freeze_panes(1, 2 if "customer_id" in columns else 0)
        for last, values in enumerate(cells, start=1):
            for number, value in enumerate(values):
                _write_cell(sheet, last, number, value, formats)
        sheet.autofilter(0, 0, max(last, 1), len(columns) - 1)
        if chosen < len(columns) and columns[chosen] == PEOPLE[chosen]:
            sheet.data_validation(1, chosen, max(last, 1), chosen, choice)

    add_sheet("Decisions", PEOPLE, _lines(rows, PEOPLE))
    add_sheet("Details", rest, _lines(pa.concat_tables([rows, approved]), rest))
    add_sheet(APPROVED_SHEET, PEOPLE, _lines(approved, PEOPLE))
    sheet = book.add_worksheet("Summary")
    sheet.set_column(0, 1, _WIDEST_SUMMARY)
    for number, (name, value) in enumerate(summary):
        sheet.write_string(number, 0, name, formats["head"])
        _write_cell(sheet, number, 1, value, formats)
    add_sheet("Fix", QUARANTINE_COLUMNS, fixes[:WORKBOOK_ROWS])
    try:
        book.close()
    except FileCreateError as error:
        raise OSError(str(error)) from None


def _lines(rows: pa.Table, columns: Sequence[str]) -> Iterator[tuple[Cell, ...]]:
    return zip(*(rows[name].to_pylist() for name in columns), strict=True)


def _write_cell(
    sheet: Worksheet, row: int, column: int, value: Cell, formats: Mapping[str, Format]
) -> None:
    """Write a cell by its type, never as a formula or a link."""
    match value:
        case None | "":
            pass
        case str():
            sheet.write_string(row, column, escape_formula(value)[:LONGEST_TEXT])
        case datetime():
            local = value.astimezone(LAGOS).replace(tzinfo=None)
            sheet.write_datetime(row, column, local, formats["instant"])
        case date():
            sheet.write_datetime(row, column, value, formats["day"])
        case Decimal():
            sheet.write_number(row, column, value, formats["money"])
        case _:
            sheet.write_number(row, column, value)


def is_returned(path: Path) -> bool:
    """Return whether a file has the headings of a decision list; its rows may have mistakes."""
    try:
        next(_returned_rows(path), None)
    except (InputError, OSError):
        return False
    return True


def read_returned(path: Path) -> list[ReviewRow]:
    """Read a decision list that people worked on; its columns may be in any order.

    Rows with all four reviewer columns blank are left out. The formula guard of cells is removed.

    Raises:
        InputError: it is not a decision list, or cannot be read.
    """
    rows = _returned_rows(path)
    return [row for row in rows if any(row[column] for column in REVIEW_COLUMNS)]


def _returned_rows(path: Path) -> Iterator[ReviewRow]:
    found = False
    for table in returned_tables(path, (*COLUMNS, *map(title, COLUMNS))):
        names = [column_of(heading) for heading in table.headings]
        known = {*names} & {*COLUMNS}
        if table.sheet and (len(known) < _ENOUGH_HEADINGS or not known & {*REVIEW_COLUMNS}):
            continue  # not a sheet of decisions
        found = True
        if missing := [name for name in NEEDED_BACK if name not in names]:
            raise _not_a_list(path, missing)
        for line, cells in table.rows:
            yield ReviewRow(line, table.sheet, dict(zip(names, cells, strict=False)))
    if not found:
        raise _not_a_list(path, NEEDED_BACK)


def _not_a_list(path: Path, missing: Sequence[str]) -> InputError:
    return InputError(
        f"{path}: this is no decision list that came back: it lacks {', '.join(missing)}; keep the "
        "headings of decisions.csv or decisions.xlsx as they are"
    )
