"""Columns of Arrow data as the judging needs them: masks, patterns, and cells put in place.

Nothing here knows what a column means. A mask is a NumPy array of booleans, one for each row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

Column: TypeAlias = "pa.Array[Any]"
Mask: TypeAlias = npt.NDArray[np.bool_]
Places: TypeAlias = npt.NDArray[np.int64]


def as_text(column: Column) -> Column:
    """Return a column as strings."""
    text: Column = pc.cast(column, pa.string())
    return text


def matching(text: Column, pattern: str) -> Mask:
    """Return which cells match an RE2 pattern; an absent cell does not."""
    if text.null_count == len(text):
        return np.zeros(len(text), dtype=np.bool_)
    options = pc.MatchSubstringOptions(pattern)
    return as_mask(pc.call_function("match_substring_regex", [text], options))


def as_mask(column: Column) -> Mask:
    """Return a boolean column as a mask of its own, null read as False."""
    known = column.fill_null(False)  # noqa: FBT003  # Arrow takes the value by place
    return np.array(known.to_numpy(zero_copy_only=False), dtype=np.bool_)


def present(column: Column) -> Mask:
    """Return which cells hold a value."""
    if column.null_count == 0:
        return np.ones(len(column), dtype=np.bool_)
    return as_mask(column.is_valid())


def where(mask: Mask, column: Column, other: Column | None = None) -> Column:
    """Return a column's cells where a mask is true, elsewhere another's or null."""
    if mask.all():
        return column
    rest = pa.scalar(None, column.type) if other is None else other
    chosen: Column = pc.call_function("if_else", [pa.array(mask), column, rest])
    return chosen


def at(column: Column, places: Places) -> list[Any]:
    """Return the cells at these rows as Python values."""
    cells: list[Any] = column.take(pa.array(places, pa.int64())).to_pylist()
    return cells


def joined(columns: Sequence[Column], separator: str) -> Column:
    """Return the cells of several text columns joined, absent ones left out; null if all are."""
    text, *others = columns
    for other in others:
        # Arrow's own skipping of nulls loses rows
        options = pc.JoinOptions(null_handling="emit_null")
        inputs = [text, other, pa.scalar(separator)]
        both = pc.call_function("binary_join_element_wise", inputs, options)
        text = first_present([both, text, other])
    return text


def first_present(columns: Sequence[Column]) -> Column:
    """Return in each row the first cell of these columns that holds a value."""
    result: Column = pc.call_function("coalesce", list(columns))
    return result
