"""The decision list as files: CSV and a workbook out, either of them back from a spreadsheet in.

Rows come in order and typed; which they are is decided in `results/decision_list.py`, what a
returned row means in `results/reviews.py`. No cell is a formula, in either direction.
"""

from __future__ import annotations

import itertools
import warnings
import zipfile
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import islice
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

import numpy as np
import openpyxl
import xlsxwriter  # type: ignore[import-untyped]  # has no types
from xlsxwriter.exceptions import FileCreateError  # type: ignore[import-untyped]

from nightscreen.files.outputs import DECISIONS_CSV
from nightscreen.files.private_files import atomic_write
from nightscreen.files.quarantine import escape_formula, unescape_formula
from nightscreen.reading.columns import HEADER_SEARCH_ROWS
from nightscreen.reading.open_file import read_start, returned_csv
from nightscreen.reading.workbook import UNREADABLE
from nightscreen.results.xlsx_cells import LONGEST_TEXT, csv_lines
from nightscreen.results.xlsx_sheets import fill_sheets
from nightscreen.schemas.clock import LAGOS
from nightscreen.schemas.decisions import (
    DECISION_COLUMNS,
    LISTED,
    QUARANTINE_COLUMNS,
    REVIEW_COLUMNS,
    ReviewRow,
)
from nightscreen.schemas.errors import InputError, OutputError
from nightscreen.schemas.policy import Decision

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray
    from xlsxwriter.format import Format  # type: ignore[import-untyped]  # has no types
    from xlsxwriter.worksheet import Worksheet  # type: ignore[import-untyped]  # has no types

    from nightscreen.files.external_sort import SortedFile

Cell = str | int | Decimal | date | datetime | None

COLUMNS = (*DECISION_COLUMNS, *REVIEW_COLUMNS)
NEEDED_BACK = ("customer_id", "run_id", "reviewer_decision", "reviewer")
SHEET_ROWS = 1_048_575
"""Rows a sheet can hold below its headings."""
WORKBOOK_ROWS = 20_000
"""Rows of the list that the workbook holds, the first by rank: a program opens more only slowly."""

_BLOCK_ROWS = 8192
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


_KINDS: dict[str, Cell] = {
    "exposure": Decimal(1),
    "karma_amount": Decimal(1),
    "past_due_amount": Decimal(1),
    "running_loans": 1,
    "karma_default_date": date(2026, 1, 1),
    "evidence_as_of": datetime(2026, 1, 1, tzinfo=LAGOS),
}
"""A cell of each column's type; every other column is text."""
_ENOUGH_HEADINGS = 3
"""How many of a list's headings make a row the one of headings."""

_ZIP = b"PK\x03\x04"
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
    return escape_formula(value) if isinstance(value, str) else str(value)


def csv_cell(text: str) -> str:
    """Return a heading as a cell of CSV."""
    guarded = escape_formula(text)
    return '"' + guarded.replace('"', '""') + '"' if set(guarded) & set(',"\r\n') else guarded


class DecisionFiles:
    """Writes `decisions.csv` and `decisions.xlsx`; both appear whole, or neither does.

    Args:
        csv_path: where the CSV file is to appear.
        workbook_path: where the workbook is to appear.
    """

    def __init__(self, csv_path: Path, workbook_path: Path) -> None:
        self._csv_path = csv_path
        self._workbook_path = workbook_path

    def write(
        self,
        summary: Sequence[tuple[str, Cell]],
        listed: Listed,
        fixes: Iterable[Sequence[Cell]] = (),
    ) -> None:
        """Write both files.

        Args:
            summary: names and values of the first sheet.
            listed: the rows, the columns `DECISION_COLUMNS` first.
            fixes: line, column, code and hint of rows to be fixed.
        """
        with (
            atomic_write(self._csv_path) as csv_part,
            atomic_write(self._workbook_path) as workbook_part,
        ):
            with csv_part.open("wb") as file:
                names = [csv_cell(name) for name in (*listed.columns, *REVIEW_COLUMNS)]
                file.write((",".join(names) + "\r\n").encode())
                for block in listed.blocks():
                    file.write(csv_lines(block, blanks=len(REVIEW_COLUMNS)))
            try:
                _write_workbook(workbook_part, summary, listed, fixes)
            except FileCreateError as error:
                raise OutputError(
                    f"cannot write {self._workbook_path}: {error}; free some disk, then resume the "
                    "run"
                ) from None


@dataclass(frozen=True, slots=True)
class Listed:
    """A list's rows, in the order they are to have.

    Attributes:
        rows: the rows in order, columns `DECISION_COLUMNS` and after them the carried ones.
        places: which of them are meant, ascending.
        columns: the names of their columns.
    """

    rows: SortedFile
    places: NDArray[np.int64]
    columns: Sequence[str] = DECISION_COLUMNS

    def blocks(self) -> Iterator[pa.Table]:
        """Yield the rows in order, some at a time."""
        return self.rows.take(self.places, _BLOCK_ROWS)

    def only(self, decision: Decision) -> Listed:
        """Return the rows of one decision, in the same order."""
        rows = self.rows.having("decision", decision.value)
        indices = np.intersect1d(self.places, rows, assume_unique=True)
        return Listed(self.rows, indices, self.columns)

    def part(self, start: int, rows: int) -> Listed:
        """Return some rows on end."""
        return Listed(self.rows, self.places[start : start + rows], self.columns)


def _write_workbook(
    path: Path,
    summary: Sequence[tuple[str, Cell]],
    listed: Listed,
    fixes: Iterable[Sequence[Cell]],
) -> None:
    """Write a workbook: one without its rows first, then the rows into its sheets.

    Rows are many and their sheets all alike, so that they are written past xlsxwriter; each sheet
    has one row of it, by which the styles of the cells are known, and which goes again.
    """
    first = listed.part(0, WORKBOOK_ROWS)
    sheets = [
        (decision.value.capitalize(), first.only(decision)) for decision in map(Decision, LISTED)
    ]
    if len(first.places) < len(listed.places):
        held = f"The first {len(first.places):,} of {len(listed.places):,} by rank"
        summary = [*summary, ("In this workbook", f"{held}; all are in {DECISIONS_CSV}")]
    with NamedTemporaryFile(dir=path.parent, prefix=".decisions.", suffix=".part") as frame:
        _write_frame(Path(frame.name), path.parent, summary, sheets, fixes)
        with zipfile.ZipFile(frame.name) as source:
            rows = {f"xl/worksheets/sheet{n}.xml": sheet for n, (_, sheet) in enumerate(sheets, 2)}
            fill_sheets(source, path, rows)


def _write_frame(
    path: Path,
    folder: Path,
    summary: Sequence[tuple[str, Cell]],
    sheets: Sequence[tuple[str, Listed]],
    fixes: Iterable[Sequence[Cell]],
) -> None:
    """Write the workbook with its headings, filters and styles, and one row in each list."""
    options = {
        "constant_memory": True,
        "tmpdir": str(folder),
        "strings_to_formulas": False,
        "strings_to_urls": False,
        "strings_to_numbers": False,
        "default_date_format": _INSTANT_FORMAT,
    }
    frame = _Frame(xlsxwriter.Workbook(str(path), options))
    frame.write_summary(summary)
    for name, listed in sheets:
        frame.add_list(name, len(listed.places), listed.columns)
    frame.add_fixes(fixes)
    frame.close()


class _Frame:
    """A workbook with everything but the rows of its lists.

    Args:
        book: the workbook.
    """

    def __init__(self, workbook: xlsxwriter.Workbook) -> None:
        self._book = workbook
        self._bold = workbook.add_format({"bold": True, "bottom": 1})
        self._day = workbook.add_format({"num_format": _DAY_FORMAT})
        self._instant = workbook.add_format({"num_format": _INSTANT_FORMAT})
        self._money = workbook.add_format({"num_format": '"₦"#,##0.00'})
        self._text = workbook.add_format({"num_format": "@"})

    def write_summary(self, lines: Sequence[tuple[str, Cell]]) -> None:
        """Write names and values, one pair a line."""
        sheet = self._book.add_worksheet("Summary")
        sheet.set_column(0, 1, _WIDEST_SUMMARY)
        for number, (name, value) in enumerate(lines):
            sheet.write_string(number, 0, name, self._bold)
            self._write_cell(sheet, number, 1, value)

    def add_list(self, name: str, rows: int, columns: Sequence[str]) -> None:
        """Add a list of so many rows, with one row that has the style of each column."""
        headings = (*columns, *REVIEW_COLUMNS)
        sheet = self._add_sheet(name, headings)
        for column, heading in enumerate(columns):
            self._write_cell(sheet, 1, column, _KINDS.get(heading, "text"))
        last = max(rows, 1)
        sheet.autofilter(0, 0, last, len(headings) - 1)
        column = headings.index("reviewer_decision")
        choice = {"validate": "list", "source": _WORDS_TO_CHOOSE, "ignore_blank": True}
        sheet.data_validation(1, column, last, column, choice)

    def add_fixes(self, fixes: Iterable[Sequence[Cell]]) -> None:
        """Add the rows to be fixed."""
        rest = iter(fixes)
        for number in itertools.count(1):
            sheet = self._add_sheet("Fix" if number == 1 else f"Fix {number}", QUARANTINE_COLUMNS)
            row = 0
            for row, cells in enumerate(islice(rest, SHEET_ROWS), start=1):
                for column, value in enumerate(cells):
                    self._write_cell(sheet, row, column, value)
            sheet.autofilter(0, 0, max(row, 1), len(QUARANTINE_COLUMNS) - 1)
            if row < SHEET_ROWS:
                return

    def close(self) -> None:
        """Write the workbook."""
        self._book.close()

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

    def _write_cell(self, sheet: Worksheet, row: int, column: int, value: Cell) -> None:
        """Write one cell by its type; nothing is ever taken for a formula or a link."""
        match value:
            case None | "":
                return
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
    start = read_start(path)
    return _workbook_rows(path) if start.startswith(_ZIP) else _csv_rows(path, start)


def _csv_rows(path: Path, start: bytes) -> Iterator[ReviewRow]:
    headings, rows = returned_csv(path, start, (*COLUMNS, *map(title, COLUMNS)))
    names = [column_of(heading) for heading in headings]
    _require_columns(path, names)
    for line, cells in rows:
        yield ReviewRow(line, "", dict(zip(names, cells, strict=False)))


def _workbook_rows(path: Path) -> Iterator[ReviewRow]:
    found = False
    with _open_workbook(path) as workbook:
        for sheet in workbook.worksheets:
            head = _heading_row(sheet)
            if head is None:
                continue
            found = True
            number, names = head
            _require_columns(path, names)
            for line, cells in enumerate(sheet.iter_rows(min_row=number + 1, values_only=True)):
                texts = (unescape_formula(_cell_text(cell)) for cell in cells)
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
                closing(openpyxl.load_workbook(file, read_only=True, data_only=True)) as workbook,
            ):
                yield workbook
        except (*UNREADABLE, zipfile.LargeZipFile):
            raise InputError(
                f"{path}: no workbook that can be read; save it as .xlsx or as CSV UTF-8"
            ) from None


def _heading_row(sheet: Any) -> tuple[int, list[str]] | None:  # noqa: ANN401 - openpyxl's streamed sheet
    """Return number and names of the row that has the headings of a list; None if none has."""
    rows: Iterable[Sequence[object]] = sheet.iter_rows(values_only=True)
    for number, cells in enumerate(islice(rows, HEADER_SEARCH_ROWS), start=1):
        names = [column_of(_cell_text(cell)) for cell in cells]
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
