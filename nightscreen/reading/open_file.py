"""Open an input file of any format and yield its rows as text with matched columns.

This module detects the format and reports files that cannot be read. `csv_rows`, `workbook` and
`parquet` read the formats, `columns` matches headings, `values/` validates values.
"""

from __future__ import annotations

import stat
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from nightscreen.files.places import sha256_of
from nightscreen.files.quarantine import unescape_formula
from nightscreen.reading.columns import Vocabulary, fold, understand, unique_headings
from nightscreen.reading.csv_rows import open_text, read_csv
from nightscreen.reading.mapping_file import Mapping
from nightscreen.schemas.columns import CUSTOMERS
from nightscreen.schemas.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from nightscreen.reading.columns import RawTable
    from nightscreen.schemas.columns import InputKind
    from nightscreen.schemas.rows import Header, SourceBatch

BATCH_ROWS = 8192
START_BYTES = 64 * 1024
ZIP_MAGIC = b"PK\x03\x04"
PARQUET_MAGIC = b"PAR1"
_NAMES = {
    "xlsx": ("an Excel workbook", (".xlsx", ".xlsm", ".xltx", ".xltm")),
    "parquet": ("a Parquet file", (".parquet", ".pq", ".parq")),
}
"""Formats with their usual file name endings."""
_OLE = (
    "a workbook protected by a password, or of the old kind (.xls): save it as .xlsx or CSV UTF-8"
)
FOREIGN = (
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", _OLE),
    (b"%PDF", "a PDF"),
    (b"<", "a web page or XML, whatever its name says"),
    (b"{\\rtf", "a word processor document"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"\x1f\x8b", "a compressed file: unpack it and give the file inside"),
    (b"7z\xbc\xaf", "a 7z archive: unpack it and give the file inside"),
    (b"Rar!", "a RAR archive: unpack it and give the file inside"),
    (b"ARROW1", "an Arrow or Feather file"),
)


@dataclass(frozen=True, slots=True)
class TableSource:
    """An input file with matched columns."""

    path: Path
    header: Header  # its matched columns, and the findings
    table: RawTable  # from the reader of its format
    stamp: tuple[int, int]  # size and time of change when it was opened

    @property
    def format(self) -> str:
        """`csv`, `xlsx` or `parquet`."""
        return self.table.format

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[SourceBatch]:
        """Yield the rows as text, up to `rows` at a time, from the beginning at every call.

        Lines are those of the text file or rows of the sheet, headings included; rows of Parquet
        count from 1. Blank rows are left out.

        Raises:
            InputError: the file is damaged further down, or has changed since it was opened.
        """
        with _readable(self.path):
            if _stamp(self.path) != self.stamp:
                raise InputError(f"{self.path}: changed while it was being read; start again")
            yield from self.table.batches(self.header, rows)


def open_source(
    path: Path, *, mapping: Mapping | None = None, kind: InputKind = CUSTOMERS
) -> TableSource:
    """Open a file and match its columns.

    Raises:
        InputError: it cannot be read as rows of that kind; the message says why and what to do.
    """
    start = read_start(path)
    with _readable(path):
        stamp = _stamp(path)
        table = _table(path, start, mapping, kind)
        findings = list(table.findings)
        kind_name, endings = _NAMES.get(table.format, ("", ()))
        ending = path.suffix
        if kind_name and ending and ending.casefold() not in endings:
            finding = f"This is {kind_name}, though its name ends in {ending}; read as such."
            findings.insert(0, finding)
        header = understand(path, table.headings, mapping, findings, kind=kind)
        source = TableSource(path, header, table, stamp)
        if next(source.batches(1), None) is None:
            raise InputError(f"{path}: no rows below the headings; export it again")
    return source


def sheets_of(path: Path) -> list[str]:
    """Return the visible sheets of a workbook; none for another file.

    Raises:
        InputError: it cannot be read.
    """
    if not read_start(path).startswith(ZIP_MAGIC):
        return []
    from nightscreen.reading.workbook import visible_sheets  # noqa: PLC0415 - see _table

    return visible_sheets(path)


def headings_of(path: Path, mapping: Mapping | None = None) -> list[str]:
    """Return a file's headings, even if they do not match.

    Raises:
        InputError: it cannot be read as a table.
    """
    start = read_start(path)
    with _readable(path):
        return unique_headings(path, _table(path, start, mapping).headings)


class ReturnedTable(NamedTuple):
    """A list that we wrote and a person returned, possibly saved by a spreadsheet program."""

    sheet: str  # of a workbook; else empty
    headings: tuple[str, ...]
    rows: Iterator[tuple[int, list[str]]]  # line and cells of each, without formula guards


def returned_tables(path: Path, headings: Iterable[str]) -> Iterator[ReturnedTable]:
    """Yield the table of a returned file, or the table of each sheet of a workbook.

    The row of headings is found by the headings that the list was written with.

    Raises:
        InputError: it cannot be read.
    """
    start = read_start(path)
    ids = frozenset([fold("customer_id")])
    vocabulary = Vocabulary(frozenset(map(fold, headings)), ids)

    def rows(table: RawTable) -> Iterator[tuple[int, list[str]]]:
        for row in table.rows():
            if "".join(row.texts).strip():
                if row.fault:
                    raise InputError(f"{path}: line {row.line}: {row.fault}; then import it again")
                yield row.line, [unescape_formula(text) for text in row.texts]

    if start.startswith(ZIP_MAGIC):
        from nightscreen.reading.workbook import (  # noqa: PLC0415 - see _table
            read_workbook,
            visible_sheets,
        )

        mappings = [Mapping(sheet=sheet) for sheet in visible_sheets(path)]
        tables = [read_workbook(path, vocabulary, mapping) for mapping in mappings]
    else:
        tables = [read_csv(open_text(path, start), vocabulary)]
    for table in tables:
        yield ReturnedTable(table.sheet or "", table.headings, rows(table))


def file_digest(path: Path) -> str:
    """Return `sha256:` and the digest of a file in hexadecimal.

    Raises:
        InputError: it cannot be read.
    """
    with _readable(path):
        return f"sha256:{sha256_of(path)}"


def read_start(path: Path) -> bytes:
    """Return the first bytes of a file.

    Raises:
        InputError: it is missing, is not a regular file, or is empty.
    """
    with _readable(path):
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise InputError(f"{path}: a folder, not a file; name the file inside it")
        if not stat.S_ISREG(mode):
            raise InputError(f"{path}: not a regular file; save it to disk first")
        with path.open("rb") as file:
            start = file.read(START_BYTES)
    if not start.strip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n"):
        raise InputError(f"{path}: the file is empty; export it again")
    return start


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Report that a file cannot be read as an `InputError`."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; check the path") from None
    except PermissionError:
        message = f"{path}: no permission to read it; change its permissions or owner"
        raise InputError(message) from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"{path}: cannot be read ({reason}); check the disk and path") from None


def _table(
    path: Path, start: bytes, mapping: Mapping | None, kind: InputKind = CUSTOMERS
) -> RawTable:
    """Read a file by its content, whatever its name.

    The readers of workbooks and Parquet are imported only for such files: openpyxl takes 0.11 s of
    CPU, Parquet 0.08, and most batches are CSV.
    """
    vocabulary = Vocabulary.of(mapping or Mapping(), kind)
    if start.startswith(ZIP_MAGIC):
        from nightscreen.reading.workbook import read_workbook  # noqa: PLC0415 - see above

        return read_workbook(path, vocabulary, mapping)
    if mapping is not None and mapping.sheet is not None:
        raise InputError(f"{mapping.path}: sheet: {path} is no workbook; take the line out")
    if start.startswith(PARQUET_MAGIC):
        from nightscreen.reading.parquet import read_parquet  # noqa: PLC0415 - see above

        return read_parquet(path)
    for magic, what in FOREIGN:
        if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(magic):
            fix = "" if ":" in what else "; give CSV, XLSX or Parquet"
            raise InputError(f"{path}: {what}{fix}")
    text = open_text(path, start)
    sample = text.sample().lstrip()
    if sample.startswith(("{", "[{", "[\n", "[\r", "[ ")):
        raise InputError(f"{path}: JSON, which is not read; export it as CSV, XLSX or Parquet")
    return read_csv(text, vocabulary)
