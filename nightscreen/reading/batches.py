"""Rows from the readers of the formats, and Arrow batches of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.files.quarantine import GUARDED_PATTERN, unescape_formula
from nightscreen.schemas.rows import RefusedRow, SourceBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nightscreen.schemas.rows import Header

BROKEN = "broken"  # code of a row that cannot be read, or split into the file's columns
MOST_COLUMNS = 2000  # of a file; lenders' widest have a few hundred
LONGEST_CELL = 32_767
"""Characters that a workbook's cell can hold; a broken value is cut to this."""
_NUL = "a zero byte inside a value; export the row again"


class SourceRow(NamedTuple):
    """A row of a file."""

    line: int  # its first line in the text, or its row in the sheet, from 1
    cells: Sequence[str | None]  # as many as the file has columns
    fault: str = ""  # why it cannot be read and what to do; empty if it can
    taken: int = 1  # number of its lines

    @property
    def texts(self) -> list[str]:
        """The values; absent ones are empty."""
        return [cell or "" for cell in self.cells]


@dataclass(frozen=True, slots=True)
class RawTable:
    """A table of text whose columns are not matched yet."""

    format: str  # `csv`, `xlsx` or `parquet`
    headings: tuple[str, ...]  # of the file
    rows: Callable[[], Iterator[SourceRow]]  # yields all rows, from the beginning at every call
    findings: tuple[str, ...] = ()  # about reading the file
    encoding: str | None = None  # of a text file
    separator: str | None = None  # of a CSV file, in words
    sheet: str | None = None  # of a workbook

    def batches(self, header: Header, size: int) -> Iterator[SourceBatch]:
        """Yield the columns of a header, `size` rows at a time; only the last batch is smaller.

        Blank rows are left out; broken rows count and stay in the batch of their neighbours. A row
        with a zero byte is broken: other programs take it for the end of a text.
        """
        pending: list[SourceRow] = []
        for row in self.rows():
            text = "".join(row.texts)
            if not text or text.isspace():
                continue
            pending.append(row._replace(fault=_NUL) if "\0" in text and not row.fault else row)
            if len(pending) == size:
                yield _batch(header, pending)
                pending = []
        if pending:
            yield _batch(header, pending)


def _batch(header: Header, rows: list[SourceRow]) -> SourceBatch:
    readable = [row for row in rows if not row.fault]
    cells = list(zip(*(row.cells for row in readable), strict=True))
    arrays = [
        pa.array(cells[column.place] if readable else [], pa.string()) for column in header.columns
    ]
    if header.fed_back:
        arrays = [
            pc.replace_substring_regex(array, pattern=GUARDED_PATTERN, replacement=r"\1")
            for array in arrays
        ]
    names = [column.heading for column in header.columns]
    return SourceBatch(
        lines=[row.line for row in readable],
        columns=pa.RecordBatch.from_arrays(arrays, names=names),
        broken=[_refused(header, row) for row in rows if row.fault],
    )


def _refused(header: Header, row: SourceRow) -> RefusedRow:
    values = [row.cells[column.place] for column in header.columns]
    values = [cell and cell.replace("\0", "\N{REPLACEMENT CHARACTER}") for cell in values]
    if header.fed_back:
        values = [cell and unescape_formula(cell) for cell in values]
    return RefusedRow(row.line, "", BROKEN, row.fault, tuple(values))
