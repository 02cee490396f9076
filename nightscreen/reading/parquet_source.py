"""Parquet files of any types, rendered to exact text a batch at a time.

Whole numbers have no decimals, decimals keep their places, dates and times are ISO, nested values
are JSON. `column_mapping` knows what headings mean.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nightscreen.reading.raw_table import RawTable, numbered_names, regroup
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.rows import SourceBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

DAMAGED = (pa.ArrowException, OSError, UnicodeDecodeError)
"""The errors that Arrow raises for a damaged file."""

INSTANT_FORMAT = "%Y-%m-%dT%H:%M:%S"
ZERO_FRACTION = r"\.0+([+-]\d|$)"


def read_parquet(path: Path) -> RawTable:
    """Return a Parquet file as a table of text; its rows count from 1.

    Raises:
        InputError: it is damaged, or a column holds what has no text.
    """
    try:
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            headings = tuple(schema.names)
    except DAMAGED:
        raise _damaged(path) from None
    for field in schema:
        _require_text(path, field)
    nested = [field.name for field in schema if pa.types.is_nested(field.type)]
    findings = (f"Nested columns are carried as JSON: {', '.join(nested)}.",) if nested else ()
    return RawTable(
        format="parquet",
        headings=headings,
        read=lambda rows: regroup(_pieces(path, rows), rows),
        findings=findings,
    )


def _damaged(path: Path) -> InputError:
    return InputError(
        f"{path}: not a readable Parquet file, damaged or cut short; write or fetch it again"
    )


def _require_text(path: Path, field: pa.Field[Any]) -> None:
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if any(test(kind) for test in (pa.types.is_interval, pa.types.is_duration, pa.types.is_union)):
        raise InputError(
            f"{path}: the column {field.name} is of type {kind}, which has no plain text; "
            "leave it out or write it as text"
        )


def _pieces(path: Path, rows: int) -> Iterator[SourceBatch]:
    line = 1
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=rows):
                arrays = [
                    _text_of(path, name, column)
                    for name, column in zip(batch.schema.names, batch.columns, strict=True)
                ]
                columns = pa.RecordBatch.from_arrays(arrays, names=numbered_names(len(arrays)))
                yield SourceBatch(list(range(line, line + batch.num_rows)), columns)
                line += batch.num_rows
    except DAMAGED:
        raise _damaged(path) from None


def _text_of(path: Path, name: str, column: pa.Array[Any]) -> pa.Array[Any]:
    try:
        return as_text(column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
        raise InputError(
            f"{path}: the column {name} of type {column.type} has no plain text; "
            "leave it out or write it as text"
        ) from None


def as_text(column: pa.Array[Any]) -> pa.Array[Any]:
    """Return a column of any type as exact text; null stays null."""
    if isinstance(column, pa.DictionaryArray):
        return as_text(column.cast(column.type.value_type))
    if isinstance(column, pa.ExtensionArray):
        return as_text(column.storage)
    renderers: tuple[tuple[Callable[[pa.DataType], bool], Callable[..., pa.Array[Any]]], ...] = (
        (pa.types.is_floating, _float_text),
        (pa.types.is_timestamp, _instant_text),
        (pa.types.is_decimal, _decimal_text),
        (pa.types.is_time, _time_text),
        (pa.types.is_nested, _json_text),
    )
    render = next((render for test, render in renderers if test(column.type)), _plain_text)
    return render(column)


def _plain_text(column: pa.Array[Any]) -> pa.Array[Any]:
    """Return text as it is, made sure to be UTF-8, which nobody did when it was read."""
    text = column.cast(pa.string())
    text.validate(full=True)
    return text


def _each(column: pa.Array[Any], text: Callable[[Any], str | None]) -> pa.Array[Any]:
    values = (value.as_py() for value in column)
    return pa.array((None if value is None else text(value) for value in values), pa.string())


def _float_text(column: pa.Array[Any]) -> pa.Array[Any]:
    """Return whole floats without decimals, others in their shortest exact form, NaN as null.

    A column of whole numbers with gaps becomes one of floats on its way through pandas.
    """
    shortest = column.cast(pa.float32()) if pa.types.is_float16(column.type) else column
    return _each(shortest.cast(pa.string()), _one_float)


def _one_float(text: str) -> str | None:
    number = Decimal(text)
    if number.is_nan():
        return None
    if number.is_finite() and number == number.to_integral_value():
        number = number.to_integral_value()
    return format(number, "f")


def _decimal_text(column: pa.Array[Any]) -> pa.Array[Any]:
    return _each(column, lambda value: format(value, "f"))


def _time_text(column: pa.Array[Any]) -> pa.Array[Any]:
    return _each(column, lambda value: value.isoformat())


def _instant_text(column: pa.Array[Any]) -> pa.Array[Any]:
    """Return times as ISO, with the offset of their zone where they have one."""
    zoned = column.type.tz is not None
    text = pc.strftime(column, format=f"{INSTANT_FORMAT}%z" if zoned else INSTANT_FORMAT)
    return pc.replace_substring_regex(text, pattern=ZERO_FRACTION, replacement=r"\1")


def _json_text(column: pa.Array[Any]) -> pa.Array[Any]:
    return _each(column, lambda value: json.dumps(value, ensure_ascii=False, default=str))
