"""A file as its format's reader gives it: headings as written and rows of text by position.

This module does not know what the columns mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.files.arrow_bytes import inside
from nightscreen.schemas.rows import RefusedRow, SourceBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


BROKEN = "broken"
"""The code of a row that cannot be split into the file's columns, or read."""
NUL = "a zero byte inside a value; export the row again"
MOST_COLUMNS = 2000
"""Columns of a file; lenders' widest have a few hundred."""


@dataclass(frozen=True, slots=True)
class RawTable:
    """A table of text whose columns have no meaning yet.

    Attributes:
        format: `csv`, `xlsx` or `parquet`.
        headings: as the file has them.
        read: yields all rows, at most so many in a batch, under `numbered_names`.
        findings: the findings about the reading.
        encoding: of a text file.
        separator: of a CSV file, in words.
        sheet: of a workbook.
    """

    format: str
    headings: tuple[str, ...]
    read: Callable[[int], Iterator[SourceBatch]]
    findings: tuple[str, ...] = ()
    encoding: str | None = None
    separator: str | None = None
    sheet: str | None = None


def numbered_names(width: int) -> list[str]:
    """Return names for columns that are known by position only."""
    return [f"c{at}" for at in range(width)]


def text_batch(
    rows: list[list[str | None]], lines: list[int], width: int, broken: Sequence[RefusedRow] = ()
) -> SourceBatch:
    """Return rows of equal width as a batch of string columns, beside those that are refused."""
    columns = zip(*rows, strict=True) if rows else [[] for _ in range(width)]
    arrays = [pa.array(column, pa.string()) for column in columns]
    table = pa.RecordBatch.from_arrays(arrays, names=numbered_names(width))
    return SourceBatch(lines, table, list(broken))


def regroup(pieces: Iterator[SourceBatch], rows: int) -> Iterator[SourceBatch]:
    """Yield pieces of any size as batches of `rows` rows, blank rows left out.

    Only the last batch is smaller; broken rows count as rows and stay with their neighbours.
    """
    held: list[SourceBatch] = []
    size = 0
    for whole in pieces:
        for piece in _slices(_without_nul(_without_blank_rows(whole)), rows):
            held.append(piece)
            size += _size(piece)
            while size >= rows:
                batch, rest = _split(_joined(held), rows)
                yield batch
                held, size = [rest], _size(rest)
    if size:
        yield _joined(held)


def _size(batch: SourceBatch) -> int:
    return int(batch.columns.num_rows) + len(batch.broken)


def _slices(batch: SourceBatch, rows: int) -> Iterator[SourceBatch]:
    """Cut a large piece, so that joining never holds more than a few batches."""
    while _size(batch) > rows:
        first, batch = _split(batch, rows)
        yield first
    yield batch


def _split(batch: SourceBatch, rows: int) -> tuple[SourceBatch, SourceBatch]:
    """Cut a batch after its first `rows` rows, broken ones counted, by line."""
    if _size(batch) <= rows:
        return batch, SourceBatch([], batch.columns.slice(0, 0))
    broken = sorted(batch.broken, key=lambda row: row.line)
    if not broken:
        whole = rows
    else:
        merged = sorted([*batch.lines, *(row.line for row in broken)])
        whole = sum(1 for line in batch.lines if line < merged[rows])
    rest = rows - whole
    return (
        SourceBatch(batch.lines[:whole], batch.columns.slice(0, whole), broken[:rest]),
        SourceBatch(batch.lines[whole:], batch.columns.slice(whole), broken[rest:]),
    )


def _joined(batches: list[SourceBatch]) -> SourceBatch:
    if len(batches) == 1:
        return batches[0]
    lines: list[int] = []
    broken: list[RefusedRow] = []
    for batch in batches:
        lines.extend(batch.lines)
        broken.extend(batch.broken)
    table = pa.Table.from_batches([batch.columns for batch in batches]).combine_chunks()
    columns = table.to_batches()[0] if table.num_rows else batches[0].columns
    return SourceBatch(lines, columns, broken)


def _without_blank_rows(batch: SourceBatch) -> SourceBatch:
    """Leave out rows that hold nothing but blanks."""
    if not batch.columns.num_rows:
        return batch
    blank = _blank(batch.columns.column(0))
    if not pc.any(blank).as_py():
        return batch
    keep = pc.invert(reduce(pc.and_, (_blank(column) for column in batch.columns.columns)))
    if pc.all(keep).as_py():
        return batch
    lines = [line for line, kept in zip(batch.lines, keep.to_pylist(), strict=True) if kept]
    return SourceBatch(lines, batch.columns.filter(keep), batch.broken)


def _without_nul(batch: SourceBatch) -> SourceBatch:
    """Refuse rows with a zero byte, which other programs take for the end of a text."""
    if not batch.columns.num_rows:
        return batch
    spoiled = [_has_nul(column) for column in batch.columns.columns]
    found = [mask for mask in spoiled if mask is not None]
    if not found:
        return batch
    bad = reduce(pc.or_, found)
    lines = np.asarray(batch.lines)
    at = np.asarray(bad)
    values = zip(*(c.to_pylist() for c in batch.columns.filter(bad).columns), strict=True)
    broken = [
        RefusedRow(line=int(line), column="", code=BROKEN, hint=NUL, values=_without_zero(cells))
        for line, cells in zip(lines[at], values, strict=True)
    ]
    columns = batch.columns.filter(pc.invert(bad))
    return SourceBatch(lines[~at].tolist(), columns, [*batch.broken, *broken])


def _has_nul(column: pa.Array[Any]) -> pa.Array[Any] | None:
    """Return which cells hold a zero byte, or None where none does."""
    ends, data = inside(column)
    if data[ends[0] : ends[-1]].all():
        return None
    return cast("pa.BooleanArray", pc.match_substring(column.fill_null(""), "\0"))


def _without_zero(cells: tuple[str | None, ...]) -> tuple[str | None, ...]:
    return tuple(cell and cell.replace("\0", "\N{REPLACEMENT CHARACTER}") for cell in cells)


def _blank(column: pa.Array[Any]) -> pa.Array[Any]:
    text = cast("pa.StringArray", column.fill_null(""))
    return pc.equal(pc.utf8_trim_whitespace(text), pa.scalar(""))
