"""Read XLSX workbooks row by row as text.

Whole numbers keep all their digits, dates become ISO, a number shown with leading zeros keeps them.
A workbook is an archive, and a few megabytes can unpack to more than a machine's memory: reading is
bounded. `open_file` detects old and protected workbooks.
"""

from __future__ import annotations

import io
import re
import warnings
import zipfile
import zlib
from contextlib import closing, contextmanager
from datetime import date, datetime, time
from decimal import Decimal
from itertools import islice
from typing import IO, TYPE_CHECKING, Literal, Protocol, cast
from xml.etree.ElementTree import ParseError
from xml.parsers import expat

from openpyxl.reader.excel import ExcelReader
from openpyxl.utils.exceptions import InvalidFileException

from nightscreen.reading.columns import (
    HEADER_SEARCH_ROWS,
    ID_WEIGHT,
    LONGEST_CELL,
    MOST_COLUMNS,
    RawTable,
    SourceRow,
    Vocabulary,
)
from nightscreen.reading.mapping_file import nearest
from nightscreen.schemas.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from openpyxl.workbook import Workbook

    from nightscreen.reading.mapping_file import Mapping


LAST_ROW = 1_048_576  # the number of the last row of a sheet
UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    InvalidFileException,
    ParseError,
    expat.ExpatError,
    KeyError,
    ValueError,
    TypeError,
    IndexError,
    RuntimeError,
)
"""Errors that zipfile and openpyxl raise for a damaged archive or sheet."""
_MOST_SHEETS = 500
"""Sheets of a workbook: one per branch, and more; openpyxl compares each name with all others."""
_ROW_BYTES = 4 << 20
"""Bytes of a row: two thousand columns of 2 kB; the parser needs about forty times as much."""
_WHOLE_BYTES = 64 << 20  # limit of a part that is read whole: styles, names of sheets, relations
_WHOLE_TAGS = 100_000
"""Limit of its tags, which become objects: enough for twenty thousand cell formats."""
_RATIO = 200
"""Limit of the bytes read from an archive, as a multiple of its size.

Sheets unpack to 9 to 12 times their size; to 110 times if all rows are equal but for their numbers
and cells have no references.
"""
_SMALL_BYTES = 2 << 20  # this much is read from any archive
_STRINGS_BYTES = 512 << 20
"""Limit of the table of texts, which stays in memory: a million rows with 20 such columns."""
_STRINGS_RATIO = 100
"""Different texts do not compress so well; checked only above `_FEW_STRINGS_BYTES`."""
_FEW_STRINGS_BYTES = 16 << 20  # this little is harmless in memory, whatever its ratio
_STRINGS = "sharedStrings"
_BEGINS_ROW = re.compile(rb"<(?:\w+:)?(?:row|si)[\s>/]")
_FULL_DIGITS = 15  # significant digits of a number in a spreadsheet
_ALL_ZEROS = re.compile(r"0{2,}")


class SwollenWorkbookError(Exception):
    """A part unpacks to more than a real workbook has; the text names the part."""


class BoundedArchive(zipfile.ZipFile):
    """A workbook's archive whose parts are read with bounds.

    No more of a part is unpacked than its size in the archive's directory. A part may be opened
    several times, and one sheet may have many names: each time counts.
    """

    _opened_bytes = 0

    def open(
        self,
        name: str | zipfile.ZipInfo,
        mode: Literal["r", "w"] = "r",
        pwd: bytes | None = None,
        *,
        force_zip64: bool = False,
    ) -> IO[bytes]:
        """Open a part for reading."""
        info = name if isinstance(name, zipfile.ZipInfo) else self.getinfo(name)
        size = info.file_size
        self._opened_bytes += size
        packed_well = size > _FEW_STRINGS_BYTES and size > _STRINGS_RATIO * info.compress_size
        if self._opened_bytes > max(_SMALL_BYTES, _RATIO * self.start_dir) or (
            _STRINGS in info.filename and (packed_well or size > _STRINGS_BYTES)
        ):
            raise SwollenWorkbookError(info.filename)
        raw = super().open(info, mode, pwd, force_zip64=force_zip64)
        return cast("IO[bytes]", _BoundedPart(raw, info.filename))


class _BoundedPart(io.BufferedIOBase):
    """One part as a stream; a row larger than `_ROW_BYTES` is refused."""

    def __init__(self, raw: IO[bytes], name: str) -> None:
        self._raw = raw
        self._name = name
        self._since_row = 0

    def close(self) -> None:
        """Close the part."""
        self._raw.close()
        super().close()

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes; the whole part only up to `_WHOLE_BYTES`."""
        if size is None or size < 0:
            whole = self._raw.read(_WHOLE_BYTES + 1)
            if len(whole) > _WHOLE_BYTES or whole.count(b"<") > _WHOLE_TAGS:
                raise SwollenWorkbookError(self._name)
            return whole
        block = self._raw.read(size)
        self._since_row = 0 if _BEGINS_ROW.search(block) else self._since_row + len(block)
        if self._since_row > _ROW_BYTES:
            raise SwollenWorkbookError(self._name)
        return block


class _Reader(ExcelReader):
    """Openpyxl's reader with a limit on the number of sheets."""

    def read_worksheets(self) -> None:
        if len(self.parser.sheets) > _MOST_SHEETS:
            raise SwollenWorkbookError(self.parser.workbook_part_name)
        super().read_worksheets()


@contextmanager
def _open(path: Path) -> Iterator[Workbook]:
    """Open a workbook for streaming; errors inside it become an InputError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # openpyxl warns of extensions, which hold no cells
        try:
            with (
                path.open("rb") as file,  # given a path, openpyxl refuses a workbook named .csv
                BoundedArchive(file) as archive,
            ):
                if "xl/workbook.xml" not in archive.namelist():  # another kind of archive
                    raise InputError(
                        f"{path}: an archive that is no workbook (.xlsx): unpack it and give the "
                        'file inside, or open it and save it as "Excel workbook (.xlsx)" or '
                        '"CSV UTF-8"'
                    )
                reader = _Reader(file, read_only=True, data_only=True)
                reader.archive = archive
                reader.read()
                with closing(reader.wb) as workbook:
                    try:
                        yield workbook
                    finally:  # frees the texts at once; the workbook is in a reference cycle
                        reader.shared_strings.clear()
        except SwollenWorkbookError as error:
            raise InputError(
                f"{path}: {error} unpacks to far more than a sheet holds; save the rows alone as "
                '"CSV UTF-8"'
            ) from None
        except UNREADABLE:
            raise InputError(
                f"{path}: the workbook is damaged or cut short; open it in a spreadsheet and save "
                "it again"
            ) from None


def read_workbook(path: Path, vocabulary: Vocabulary, mapping: Mapping | None) -> RawTable:
    """Return one sheet of a workbook as a table of text.

    Raises:
        InputError: it is not a workbook, is damaged, has no such sheet, or all sheets are empty.
    """
    with _open(path) as workbook:
        rows, findings, sheet = _choose(path, workbook, vocabulary, mapping)
    at, score = vocabulary.header_row(rows)
    if score and any(any(row) for row in rows[:at]):
        findings.append(
            f"The headings were found in row {at + 1}; everything above them is left out."
        )
    # as wide as the headings or the first rows below them
    width = max(
        (index for row in rows[at:] for index, cell in enumerate(row, start=1) if cell.strip()),
        default=0,
    )
    headings = tuple([*rows[at], *[""] * width][:width]) if rows else ()
    return RawTable(
        format="xlsx",
        headings=headings,
        rows=lambda: _rows(path, sheet, at + 1, width),
        findings=tuple(findings),
        sheet=sheet,
    )


def visible_sheets(path: Path) -> list[str]:
    """Return the names of a workbook's visible sheets.

    Raises:
        InputError: it is no workbook, or is damaged.
    """
    with _open(path) as workbook:
        return _visible(workbook)


def _visible(workbook: Workbook) -> list[str]:
    return [sheet.title for sheet in workbook.worksheets if sheet.sheet_state == "visible"]


def _choose(
    path: Path, workbook: Workbook, vocabulary: Vocabulary, mapping: Mapping | None
) -> tuple[list[list[str]], list[str], str]:
    """Return the first rows of the sheet to read, the findings about the others, and its name.

    It is the first with a heading for `customer_id`, so that a cover sheet is skipped. If there is
    none, it is the sheet with most known headings, so that the error message lists the headings of
    the data.
    """
    if mapping and mapping.sheet:
        titles = {sheet.title.casefold(): sheet.title for sheet in workbook.worksheets}
        name = titles.get(mapping.sheet.casefold())
        if name is None:
            hint = nearest(mapping.sheet, tuple(titles)) or f"; it has {', '.join(titles.values())}"
            raise InputError(f'{mapping.path}: sheet: no sheet "{mapping.sheet}" in {path}{hint}')
        return _first_rows(workbook, name), [], name
    first = {name: _first_rows(workbook, name) for name in _visible(workbook)}
    filled = [name for name, rows in first.items() if any(any(row) for row in rows)]
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
    """Return the rows in which to find the headings, with one column more than a file may have."""
    texts = islice(_texts(workbook, sheet, MOST_COLUMNS + 1), HEADER_SEARCH_ROWS)
    rows = ([cell or "" for cell in row] for row in texts)
    return [
        row[: max((at for at, cell in enumerate(row, start=1) if cell), default=0)] for row in rows
    ]


def _rows(path: Path, sheet: str, skip: int, width: int) -> Iterator[SourceRow]:
    """Yield the rows below the headings; cells beyond the last heading are left out."""
    with _open(path) as workbook:
        for line, cells in enumerate(_texts(workbook, sheet, width), start=1):
            if line > LAST_ROW:
                raise InputError(
                    f"{path}: a row beyond the last that a sheet can have; open it in a "
                    "spreadsheet and save it again"
                )
            if line <= skip:
                continue
            fault = ""
            if any(cell and len(cell) > LONGEST_CELL for cell in cells):
                cells = [cell and cell[:LONGEST_CELL] for cell in cells]  # noqa: PLW2901
                fault = f"a cell of over {LONGEST_CELL} characters, which no workbook holds"
            yield SourceRow(line, cells, fault and f"{fault}; shorten it")


def _texts(workbook: Workbook, sheet: str, width: int) -> Iterator[list[str | None]]:
    """Yield every row of a sheet as text, from row 1, with `width` columns."""
    worksheet = workbook[sheet]
    worksheet.reset_dimensions()  # the dimensions in the file are often wrong
    for row in worksheet.iter_rows(min_row=1, min_col=1, max_col=max(1, width)):
        yield [
            cell.value if isinstance(cell.value, str) else _cell_text(cell.value, cell)
            for cell in row
        ]


class _Formatted(Protocol):
    """A cell of a streamed sheet, empty ones included."""

    @property
    def number_format(self) -> str | None: ...


def _cell_text(value: object, cell: _Formatted) -> str | None:
    """Return a cell as text.

    A number has its fifteen significant digits, although the file has seventeen
    (0.30000000000000004 is 0.3), and the leading zeros of its format.
    """
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        text = str(value)
        if isinstance(value, float):
            text = format(Decimal(f"{value:.{_FULL_DIGITS}g}"), "f")
        shown = cell.number_format
        zeros = shown and _ALL_ZEROS.fullmatch(shown) and text.isdigit()
        return text.zfill(len(shown or "")) if zeros else text
    if isinstance(value, datetime):
        return (value.date() if value.time() == time() else value).isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value)
