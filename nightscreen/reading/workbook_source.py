"""XLSX workbooks, streamed row by row; every cell becomes the text that the sheet means.

Whole numbers keep all their digits, dates become ISO, a number shown with leading zeros keeps them.
`column_mapping` knows what headings mean; `tables.py` recognises old and protected workbooks.
"""

from __future__ import annotations

import re
import warnings
import zipfile
import zlib
from contextlib import closing, contextmanager
from datetime import date, datetime, time
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Protocol
from xml.etree.ElementTree import ParseError
from xml.parsers.expat import ExpatError

from openpyxl.reader.excel import ExcelReader
from openpyxl.utils.exceptions import InvalidFileException
from openpyxl.xml.constants import SHARED_STRINGS

from nightscreen.reading.bounded_workbook import (
    LAST_ROW,
    LONGEST_CELL,
    BoundedArchive,
    SwollenWorkbookError,
    read_strings,
)
from nightscreen.reading.headings import HEADER_SEARCH_ROWS, ID_WEIGHT
from nightscreen.reading.mapping import Mapping, nearest
from nightscreen.reading.raw_table import BROKEN, MOST_COLUMNS, RawTable, regroup, text_batch
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.rows import RefusedRow, SourceBatch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from openpyxl.workbook import Workbook

    from nightscreen.reading.headings import Vocabulary

PIECE_ROWS = 2048
MOST_SHEETS = 500
"""Sheets of a workbook: one for each branch, and room; openpyxl compares each name with all."""
FULL_DIGITS = 15
"""How many digits a spreadsheet keeps of a number."""
ALL_ZEROS = re.compile(r"0{2,}")
MIDNIGHT = time()
UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    InvalidFileException,
    ParseError,
    ExpatError,
    KeyError,
    ValueError,
    TypeError,
    IndexError,
    RuntimeError,
)
"""The errors that zipfile and openpyxl raise for a damaged archive or sheet."""


class _Formatted(Protocol):
    """A cell of a streamed sheet, empty ones included."""

    @property
    def number_format(self) -> str | None: ...


def read_workbook(path: Path, vocabulary: Vocabulary, mapping: Mapping | None) -> RawTable:
    """Return one sheet of a workbook as a table of text.

    Raises:
        InputError: it is no workbook, is damaged, has no such sheet, or all sheets are empty.
    """
    _require_workbook(path)
    with _open(path) as workbook:
        rows, findings, sheet = _choose(path, workbook, vocabulary, mapping)
    at, score = vocabulary.header_row(rows)
    if score and any(any(row) for row in rows[:at]):
        findings.append(
            f"The headings were found in row {at + 1}; everything above them is left out."
        )
    headings = tuple(_trimmed(rows, at)) if rows else ()
    return RawTable(
        format="xlsx",
        headings=headings,
        read=lambda size: regroup(_pieces(path, sheet, at + 1, len(headings)), size),
        findings=tuple(findings),
        sheet=sheet,
    )


def visible_sheets(path: Path) -> list[str]:
    """Return the names of a workbook's sheets that are not hidden.

    Raises:
        InputError: it is no workbook, or is damaged.
    """
    _require_workbook(path)
    with _open(path) as workbook:
        return _visible(workbook)


def _visible(workbook: Workbook) -> list[str]:
    return [sheet.title for sheet in workbook.worksheets if sheet.sheet_state == "visible"]


def _require_workbook(path: Path) -> None:
    """Refuse other archives, which have the same first bytes as a workbook."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except UNREADABLE:
        raise _damaged(path) from None
    if "xl/workbook.xml" in names:
        return
    if "xl/workbook.bin" in names:
        what = "a binary workbook (.xlsb); save it as .xlsx"
    elif "mimetype" in names and "content.xml" in names:
        what = "an OpenDocument file; save it as .xlsx or CSV UTF-8"
    elif "word/document.xml" in names:
        what = "a Word document; give CSV, XLSX or Parquet"
    else:
        what = "a ZIP archive; unpack it and give the file inside"
    raise InputError(f"{path}: {what}")


def _damaged(path: Path) -> InputError:
    return InputError(
        f"{path}: the workbook is damaged or cut short; open it in a spreadsheet and save it again"
    )


@contextmanager
def _open(path: Path) -> Iterator[Workbook]:
    """Open a workbook for streaming; what goes wrong inside it is an InputError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # openpyxl warns of extensions that hold no cells
        try:
            with (
                path.open("rb") as file,  # by name openpyxl refuses a .csv that is a workbook
                BoundedArchive(file) as archive,
            ):
                reader = _Reader(file, read_only=True, data_only=True)
                reader.archive = archive
                reader.read()
                with closing(reader.wb) as workbook:
                    yield workbook
        except SwollenWorkbookError as error:
            raise InputError(
                f"{path}: {error} unpacks to far more than a sheet holds; save the rows alone as "
                '"CSV UTF-8"'
            ) from None
        except UNREADABLE:
            raise _damaged(path) from None


class _Reader(ExcelReader):
    """Openpyxl's reader, with a quick one for the table of texts."""

    def read_worksheets(self) -> None:
        if len(self.parser.sheets) > MOST_SHEETS:
            raise SwollenWorkbookError(self.parser.workbook_part_name)
        super().read_worksheets()

    def read_strings(self) -> None:
        part = self.package.find(SHARED_STRINGS)  # type: ignore[no-untyped-call]  # the stubs have no types here
        if part is not None:
            with self.archive.open(part.PartName[1:]) as opened:
                self.shared_strings = read_strings(opened)


def _choose(
    path: Path, workbook: Workbook, vocabulary: Vocabulary, mapping: Mapping | None
) -> tuple[list[list[str]], list[str], str]:
    """Return the first rows of the sheet to read, the findings about the others, and its name.

    It is the first that has a heading for `customer_id`, so that a cover sheet before the data is
    passed over; where none has, the one with most known headings, so that the user is asked which
    of the data's own headings it is.
    """
    wanted = mapping.sheet if mapping else None
    if mapping and wanted:
        titles = {sheet.title.casefold(): sheet.title for sheet in workbook.worksheets}
        if wanted.casefold() not in titles:
            hint = nearest(wanted, tuple(titles)) or f"; it has {', '.join(titles.values())}"
            raise InputError(f'{mapping.path}: sheet: no sheet "{wanted}" in {path}{hint}')
        name = titles[wanted.casefold()]
        return _first_rows(workbook, name), [], name
    visible = _visible(workbook)
    first = {name: _first_rows(workbook, name) for name in visible}
    filled = [name for name in visible if any(any(row) for row in first[name])]
    if not filled:
        raise InputError(
            f"{path}: no visible sheet holds anything in its first {HEADER_SEARCH_ROWS} rows; "
            "export it again"
        )
    if len(filled) == 1:
        return first[filled[0]], [], filled[0]
    scores = {name: vocabulary.header_row(first[name])[1] for name in filled}
    chosen = next((name for name in filled if scores[name] >= ID_WEIGHT), None)
    chosen = chosen or max(filled, key=scores.__getitem__)
    others = ", ".join(name for name in filled if name != chosen)
    finding = (
        f'The sheet "{chosen}" is read; {others} also hold rows. '
        'Name another in a mapping file: sheet = "...".'
    )
    return first[chosen], [finding], chosen


def _first_rows(workbook: Workbook, sheet: str) -> list[list[str]]:
    """Return the rows among which headings are looked for, one column more than a file may have."""
    texts = islice(_texts(workbook, sheet, MOST_COLUMNS + 1), HEADER_SEARCH_ROWS)
    rows = ([cell or "" for cell in row] for row in texts)
    return [
        row[: max((at for at, cell in enumerate(row, start=1) if cell), default=0)] for row in rows
    ]


def _trimmed(rows: list[list[str]], at: int) -> list[str]:
    """Return the headings, as wide as they or the first rows below them are."""
    width = max(
        (index + 1 for row in rows[at:] for index, cell in enumerate(row) if cell.strip()),
        default=0,
    )
    return [*rows[at], *[""] * width][:width]


def _pieces(path: Path, sheet: str, skip: int, width: int) -> Iterator[SourceBatch]:
    """Yield the rows below the headings; cells beyond the last heading are left out."""
    with _open(path) as workbook:
        rows: list[list[str | None]] = []
        lines: list[int] = []
        broken: list[RefusedRow] = []
        for line, row in enumerate(_texts(workbook, sheet, width), start=1):
            if line > LAST_ROW:
                raise InputError(
                    f"{path}: a row beyond the last that a sheet can have; open it in a "
                    "spreadsheet and save it again"
                )
            if line <= skip or not any(row):
                continue
            if any(cell and len(cell) > LONGEST_CELL for cell in row):
                broken.append(_swollen_row(line, row))
                continue
            rows.append(row)
            lines.append(line)
            if len(rows) == PIECE_ROWS:
                yield text_batch(rows, lines, width, broken)
                rows, lines, broken = [], [], []
        yield text_batch(rows, lines, width, broken)


def _swollen_row(line: int, row: list[str | None]) -> RefusedRow:
    """Return a row for quarantine; of the cell that is too long only the beginning stays."""
    values = tuple(cell and cell[:LONGEST_CELL] for cell in row)
    hint = f"a cell of over {LONGEST_CELL} characters, which no workbook holds; shorten it"
    return RefusedRow(line=line, column="", code=BROKEN, hint=hint, values=values)


def _texts(workbook: Workbook, sheet: str, width: int) -> Iterator[list[str | None]]:
    """Yield every row of a sheet as text, from row 1 and column 1, so many columns of it."""
    worksheet = workbook[sheet]
    worksheet.reset_dimensions()  # what the file says of its size is often wrong
    for row in worksheet.iter_rows(min_row=1, min_col=1, max_col=max(1, width)):
        yield [
            cell.value if isinstance(cell.value, str) else _cell_text(cell.value, cell)
            for cell in row
        ]


def _cell_text(value: object, cell: _Formatted) -> str | None:
    """Return the text that a cell means."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return _number_text(value, cell.number_format)
    if isinstance(value, datetime):
        return (value.date() if value.time() == MIDNIGHT else value).isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value)


def _number_text(value: float, number_format: str | None) -> str:
    """Return a number with all the digits that the sheet keeps, and the zeros that it shows.

    The file has seventeen digits, fifteen are meant: 0.30000000000000004 is 0.3.
    """
    text = str(value)
    if isinstance(value, float):
        text = format(Decimal(f"{value:.{FULL_DIGITS}g}"), "f")
    if number_format and ALL_ZEROS.fullmatch(number_format) and text.isdigit():
        return text.zfill(len(number_format))
    return text
