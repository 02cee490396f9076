"""Read Parquet files of any types as exact text.

Whole numbers have no decimals, decimals keep theirs, dates and times are ISO, nested values are
JSON.
"""

from __future__ import annotations

import json
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as kinds

from nightscreen.reading.columns import RawTable, SourceRow
from nightscreen.schemas.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_PIECE_ROWS = 256  # rows to read at once; more take as long
_PIECE_BYTES = 64 << 20
_DAMAGED = (pa.ArrowException, OSError, UnicodeDecodeError)
"""Errors that Arrow raises for a damaged file."""


def read_parquet(path: Path) -> RawTable:
    """Return a Parquet file as a table of text; its rows count from 1.

    Raises:
        InputError: it is damaged, or a column's type has no text form.
    """
    try:
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
    except _DAMAGED:
        raise _damaged(path) from None
    for field in schema:
        kind = field.type.value_type if kinds.is_dictionary(field.type) else field.type
        if kinds.is_interval(kind) or kinds.is_duration(kind) or kinds.is_union(kind):
            raise _textless(path, field.name, kind)
    nested = [field.name for field in schema if kinds.is_nested(field.type)]
    return RawTable(
        format="parquet",
        headings=tuple(schema.names),
        rows=lambda: _rows(path),
        findings=(f"Nested columns are carried as JSON: {', '.join(nested)}.",) if nested else (),
    )


def _damaged(path: Path) -> InputError:
    return InputError(
        f"{path}: not a readable Parquet file, damaged or cut short; write or fetch it again"
    )


def _textless(path: Path, name: str, kind: pa.DataType) -> InputError:
    return InputError(
        f"{path}: the column {name} of type {kind} has no plain text; leave it out or write it "
        "as text"
    )


def _rows(path: Path) -> Iterator[SourceRow]:
    lines = count(1)
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_rows_at_once(file.metadata)):
                columns = []
                for name, column in zip(batch.schema.names, batch.columns, strict=True):
                    try:
                        columns.append(as_text(column).to_pylist())
                    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
                        raise _textless(path, name, column.type) from None
                yield from (SourceRow(next(lines), cells) for cells in zip(*columns, strict=True))
    except _DAMAGED:
        raise _damaged(path) from None


def _rows_at_once(metadata: pq.FileMetaData) -> int:
    """Return how many rows to read at once, so that long values do not fill the memory.

    A repeated value is stored once, but read as often as it occurs. How long it is shows only in
    the size of its column. Writers leave out the least and greatest value of a column if they are
    long, so that columns of short values are recognised.
    """
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    columns = (group.column(at) for group in groups for at in range(metadata.num_columns))
    unknown = (
        column.total_uncompressed_size
        for column in columns
        if column.statistics is None or not column.statistics.has_min_max
    )
    longest: int = max((1, *unknown))
    return max(1, min(_PIECE_ROWS, _PIECE_BYTES // longest))


def as_text(column: pa.Array[Any]) -> pa.Array[Any]:
    """Return a column of any type as exact text; null stays null."""
    kind = column.type
    if isinstance(column, pa.DictionaryArray):
        text = as_text(column.cast(kind.value_type))
    elif isinstance(column, pa.ExtensionArray):
        text = as_text(column.storage)
    elif kinds.is_floating(kind):
        # Arrow's text is the shortest exact one; it does not cast half floats
        shortest = column.cast(pa.float32()) if kinds.is_float16(kind) else column
        text = _each(shortest.cast(pa.string()), _float_text)
    elif kinds.is_timestamp(kind):
        form = "%Y-%m-%dT%H:%M:%S" if kind.tz is None else "%Y-%m-%dT%H:%M:%S%z"
        whole = pc.strftime(column, format=form)
        text = pc.replace_substring_regex(whole, pattern=r"\.0+([+-]\d|$)", replacement=r"\1")
    elif kinds.is_decimal(kind):
        text = _each(column, lambda value: format(value, "f"))
    elif kinds.is_time(kind):
        text = _each(column, lambda value: str(value.isoformat()))
    elif kinds.is_nested(kind):
        text = _each(column, lambda value: json.dumps(value, ensure_ascii=False, default=str))
    else:
        text = column.cast(pa.string())
        text.validate(full=True)  # UTF-8 is not checked when a file is read
    return text


def _each(column: pa.Array[Any], text: Callable[[Any], str | None]) -> pa.Array[Any]:
    values = (value.as_py() for value in column)
    return pa.array((None if value is None else text(value) for value in values), pa.string())


def _float_text(text: str) -> str | None:
    """Return a whole float without decimals and exponent; NaN is null.

    pandas turns a column of whole numbers with gaps into floats.
    """
    number = Decimal(text)
    if number.is_nan():
        return None
    if number.is_finite() and number == number.to_integral_value():
        number = number.to_integral_value()
    return format(number, "f")
