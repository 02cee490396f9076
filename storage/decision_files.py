"""The decision list as files: CSV and a workbook out, either of them back from a spreadsheet in.

Rows come in order and typed; which they are is decided in `steps/decision_list.py`, what a returned
row means in `steps/reviews.py`. No cell is a formula, in either direction.
"""

from __future__ import annotations

import csv
import warnings
import zipfile
from contextlib import closing, contextmanager
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any

import openpyxl
import xlsxwriter  # type: ignore[import-untyped]  # has no types
from xlsxwriter.exceptions import FileCreateError  # type: ignore[import-untyped]

from schemas.decisions import (
    DECISION_COLUMNS,
    FIX_COLUMNS,
    LISTED,
    REVIEW_COLUMNS,
    ReviewRow,
)
from schemas.errors import InputError, OutputError
from schemas.policy import Decision
from storage.clock import LAGOS
from storage.csv_source import read_csv
from storage.headings import HEADER_SEARCH_ROWS, Vocabulary, fold
from storage.private import appearing
from storage.rejects import guard, unguard
from storage.text_stream import open_text
from storage.workbook_source import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from xlsxwriter.format import Format  # type: ignore[import-untyped]  # has no types
    from xlsxwriter.worksheet import Worksheet  # type: ignore[import-untyped]  # has no types

Cell = str | int | Decimal | date | datetime | None

CSV_FILE, WORKBOOK_FILE = "decisions.csv", "decisions.xlsx"
COLUMNS = (*DECISION_COLUMNS, *REVIEW_COLUMNS)
NEEDED_BACK = ("customer_id", "run_id", "reviewer_decision", "reviewer")
SHEET_ROWS = 1_048_575
"""Rows a sheet can hold below its headings."""

_LONGEST_TEXT = 32_767
_ENOUGH_HEADINGS = 3
"""How many of a list's headings make a row the one of headings."""

_ZIP = b"PK\x03\x04"
_START_BYTES = 64 * 1024
_READ_ROWS = 2048
_DAY_FORMAT, _INSTANT_FORMAT = "yyyy-mm-dd", "yyyy-mm-dd hh:mm"
_WIDE = {"reason_text": 48, "action": 40, "review_note": 32, "customer_name": 28}
_WIDTH = 16
_WIDEST_SUMMARY = 44
_WORDS_TO_CHOOSE = ["approve", "decline", "review"]


def csv_text(value: Cell) -> str:
    """Return a cell as CSV has it: ISO dates, instants in Lagos time, text safe to open."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.astimezone(LAGOS).isoformat(timespec="seconds")
    if isinstance(value, date):
        return value.isoformat()
    return guard(value) if isinstance(value, str) else str(value)


class DecisionFiles:
    """Writes `decisions.csv` and `decisions.xlsx`; both appear whole when the block ends well.

    Args:
        csv_path: where the CSV file is to appear.
        workbook_path: where the workbook is to appear.
    """

    def __init__(self, csv_path: Path, workbook_path: Path) -> None:
        self._csv_path = csv_path
        self._workbook_path = workbook_path

    @contextmanager
    def opened(self, summary: Sequence[tuple[str, Cell]]) -> Iterator[ListWriter]:
        """Open both files and write the summary, which stands first in the workbook."""
        with (
            appearing(self._csv_path) as csv_part,
            appearing(self._workbook_path) as workbook_part,
            csv_part.open("w", encoding="utf-8", newline="") as file,
        ):
            options = {
                "constant_memory": True,
                "tmpdir": str(workbook_part.parent),
                "strings_to_formulas": False,
                "strings_to_urls": False,
                "strings_to_numbers": False,
                "default_date_format": _INSTANT_FORMAT,
            }
            book = xlsxwriter.Workbook(str(workbook_part), options)
            writer = ListWriter(csv.writer(file, lineterminator="\r\n"), book)
            writer.write_summary(summary)
            yield writer
            try:
                writer.finish()
            except FileCreateError as error:
                raise OutputError(
                    f"cannot write {self._workbook_path}: {error}; free some disk, then resume the "
                    "run"
                ) from None


class ListWriter:
    """Takes the rows of a decision list, in order.

    Args:
        rows: writes the CSV file.
        book: the workbook.
    """

    def __init__(self, rows: Any, book: xlsxwriter.Workbook) -> None:  # noqa: ANN401 - csv's own writer has no public type
        self._rows = rows
        self._book = book
        self._bold = book.add_format({"bold": True, "bottom": 1})
        self._day = book.add_format({"num_format": _DAY_FORMAT})
        self._instant = book.add_format({"num_format": _INSTANT_FORMAT})
        self._money = book.add_format({"num_format": "#,##0.00"})
        self._text = book.add_format({"num_format": "@"})
        self._rows.writerow(COLUMNS)
        self._summary = book.add_worksheet("Summary")
        self._sheets = {
            each: _Sheet(self, each.value.capitalize(), COLUMNS) for each in map(Decision, LISTED)
        }
        self._fix = _Sheet(self, "Fix", FIX_COLUMNS)

    def write_summary(self, lines: Sequence[tuple[str, Cell]]) -> None:
        """Write names and values, one pair a line."""
        self._summary.set_column(0, 1, _WIDEST_SUMMARY)
        for number, (name, value) in enumerate(lines):
            self._summary.write_string(number, 0, name, self._bold)
            self._write_cell(self._summary, number, 1, value)

    def write(self, row: Sequence[Cell]) -> None:
        """Add one row of the list, in the order of `DECISION_COLUMNS`."""
        blanks = [""] * len(REVIEW_COLUMNS)
        self._rows.writerow([*map(csv_text, row), *blanks])
        word = Decision(str(row[DECISION_COLUMNS.index("decision")]))
        self._sheets[word].write(row)

    def write_fix(self, row: Sequence[Cell]) -> None:
        """Add one row to be fixed: line, column, code, hint."""
        self._fix.write(row)

    def finish(self) -> None:
        """Set the filters and close the workbook."""
        for sheet in (*self._sheets.values(), self._fix):
            sheet.finish()
        self._book.close()

    def add_sheet(self, name: str, columns: Sequence[str]) -> Worksheet:
        """Add a sheet with bold headings that stay in view."""
        sheet = self._book.add_worksheet(name)
        for number, column in enumerate(columns):
            sheet.set_column(number, number, _WIDE.get(column, _WIDTH), self._format_of(column))
            sheet.write_string(0, number, column, self._bold)
        sheet.freeze_panes(1, 2 if "customer_id" in columns else 0)
        return sheet

    def _format_of(self, column: str) -> Format | None:
        if column == "reviewed_at":
            return self._day
        return self._text if column in {"customer_id", "bvn_last4", *REVIEW_COLUMNS} else None

    def _write_cell(self, sheet: Worksheet, row: int, column: int, value: Cell) -> None:
        """Write one cell by its type; nothing is ever taken for a formula or a link."""
        match value:
            case None | "":
                return
            case str():
                text = guard(value)[:_LONGEST_TEXT]
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

    write_cell = _write_cell


class _Sheet:
    """A sheet, and those that follow where it is full."""

    def __init__(self, writer: ListWriter, name: str, columns: Sequence[str]) -> None:
        self._writer = writer
        self._name = name
        self._columns = columns
        self._number = 1
        self._row = 0
        self._sheet = writer.add_sheet(name, columns)

    def write(self, cells: Sequence[Cell]) -> None:
        if self._row == SHEET_ROWS:
            self.finish()
            self._number += 1
            self._row = 0
            self._sheet = self._writer.add_sheet(f"{self._name} {self._number}", self._columns)
        self._row += 1
        for column, value in enumerate(cells):
            self._writer.write_cell(self._sheet, self._row, column, value)

    def finish(self) -> None:
        """Set the filter, and the words a reviewer can choose from."""
        last = max(self._row, 1)
        self._sheet.autofilter(0, 0, last, len(self._columns) - 1)
        if "reviewer_decision" in self._columns:
            column = self._columns.index("reviewer_decision")
            choice = {"validate": "list", "source": _WORDS_TO_CHOOSE, "ignore_blank": True}
            self._sheet.data_validation(1, column, last, column, choice)


def read_returned(path: Path) -> list[ReviewRow]:
    """Read a decision list that was worked on, whatever its columns' order.

    Rows of which all four reviewer columns are blank are left out. Cells have their formula guard
    taken off.

    Raises:
        InputError: it is no such list, or cannot be read.
    """
    try:
        with path.open("rb") as file:
            start = file.read(_START_BYTES)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"{path}: cannot be read ({reason}); check the path") from None
    if not start.strip():
        raise InputError(f"{path}: the file is empty; save the list again")
    rows = _workbook_rows(path) if start.startswith(_ZIP) else _csv_rows(path, start)
    return [row for row in rows if any(row[column] for column in REVIEW_COLUMNS)]


def _csv_rows(path: Path, start: bytes) -> Iterator[ReviewRow]:
    vocabulary = Vocabulary(own=frozenset(map(fold, COLUMNS)), ids=frozenset([fold("customer_id")]))
    table = read_csv(open_text(path, start), vocabulary)
    names = [heading.strip().casefold() for heading in table.headings]
    _require_columns(path, names)
    for batch in table.read(_READ_ROWS):
        if batch.broken:
            broken = batch.broken[0]
            raise InputError(f"{path}: line {broken.line}: {broken.hint}; then import it again")
        columns = (column.to_pylist() for column in batch.columns.columns)
        for line, cells in zip(batch.lines, zip(*columns, strict=True), strict=True):
            texts = (unguard(cell or "") for cell in cells)
            yield ReviewRow(line, "", dict(zip(names, texts, strict=False)))


def _workbook_rows(path: Path) -> Iterator[ReviewRow]:
    found = False
    with _open_workbook(path) as book:
        for sheet in book.worksheets:
            head = _heading_row(sheet)
            if head is None:
                continue
            found = True
            number, names = head
            _require_columns(path, names)
            for line, cells in enumerate(sheet.iter_rows(min_row=number + 1, values_only=True)):
                texts = (unguard(_cell_text(cell)) for cell in cells)
                row = dict(zip(names, texts, strict=False))
                yield ReviewRow(number + 1 + line, sheet.title, row)
    if not found:
        raise _no_list(path, NEEDED_BACK)


@contextmanager
def _open_workbook(path: Path) -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # openpyxl warns of extensions that hold no cells
        try:
            with (
                path.open("rb") as file,
                closing(openpyxl.load_workbook(file, read_only=True, data_only=True)) as book,
            ):
                yield book
        except (*UNREADABLE, zipfile.LargeZipFile):
            raise InputError(
                f"{path}: no workbook that can be read; save it as .xlsx or as CSV UTF-8"
            ) from None


def _heading_row(sheet: Any) -> tuple[int, list[str]] | None:  # noqa: ANN401 - openpyxl's streamed sheet
    """Return number and names of the row that has the headings of a list; None where none has."""
    rows: Iterable[Sequence[object]] = sheet.iter_rows(values_only=True)
    for number, cells in enumerate(islice(rows, HEADER_SEARCH_ROWS), start=1):
        names = [_cell_text(cell).strip().casefold() for cell in cells]
        if len(set(names) & set(COLUMNS)) >= _ENOUGH_HEADINGS:
            return number, names
    return None


def _require_columns(path: Path, names: Sequence[str]) -> None:
    missing = [name for name in NEEDED_BACK if name not in names]
    if missing:
        raise _no_list(path, missing)


def _no_list(path: Path, missing: Sequence[str]) -> InputError:
    return InputError(
        f"{path}: this is no decision list that came back: it lacks {', '.join(missing)}; keep the "
        "headings of decisions.csv or decisions.xlsx as they are"
    )


def _cell_text(value: object) -> str:
    """Return a cell of a workbook as text; a date as ISO, a whole number without a point."""
    match value:
        case None:
            return ""
        case datetime():
            day = value.time() == datetime.min.time()
            return value.date().isoformat() if day else value.isoformat(sep=" ")
        case float() if value.is_integer():
            return str(int(value))
        case timedelta() | bool():
            return ""
        case _:
            return str(value)
