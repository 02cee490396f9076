"""Columns of Arrow data as the judging needs them: masks, patterns, and cells put in place.

Nothing here knows what a column means. A mask is a NumPy array of booleans, one for each row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.files.arrow_bytes import Edges, table_of, table_of_ends

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Column: TypeAlias = "pa.Array[Any]"
Mask: TypeAlias = npt.NDArray[np.bool_]
Places: TypeAlias = npt.NDArray[np.int64]

_BLANKS = " \t\r\n\v\f\u00a0\u2007\u200b\u202f\u3000\ufeff"
_BEGINS_BLANK = table_of(_BLANKS)
_ENDS_BLANK = table_of_ends(_BLANKS)


def as_text(column: Column) -> Column:
    """Return a column as strings."""
    text: Column = pc.cast(column, pa.string())
    return text


def stripped(text: Column) -> Column:
    """Return a column of text without the blanks round each cell."""
    edges = Edges.of(text)
    if not (_BEGINS_BLANK[edges.first].any() or _ENDS_BLANK[edges.last].any()):
        return text
    bare: Column = pc.call_function("utf8_trim", [text], pc.TrimOptions(_BLANKS))
    return bare


def matching(text: Column, pattern: str, of: Mask | None = None) -> Mask:
    """Return which cells match an RE2 pattern; an absent cell does not.

    Args:
        text: the cells.
        pattern: the pattern.
        of: which cells can match it at all, if a cheap test has shown; the others are left out.
    """
    if of is None:
        of = np.ones(len(text), dtype=np.bool_)
    return _of_some(text, of, lambda part: _matching(part, pattern))


def _matching(text: Column, pattern: str) -> Mask:
    options = pc.MatchSubstringOptions(pattern)
    return as_mask(pc.call_function("match_substring_regex", [text], options))


def _of_some(text: Column, of: Mask, judge: Callable[[Column], Mask]) -> Mask:
    """Return what some cells are judged to be, false for the others."""
    found = np.zeros(len(text), dtype=np.bool_)
    number = np.count_nonzero(of)
    if not number or text.null_count == len(text):
        return found
    if number > len(text) // 2:
        return judge(text) & of
    found[of] = judge(text.filter(pa.array(of)))
    return found


def among(text: Column, words: Sequence[str], of: Mask) -> Mask:
    """Return which cells are one of these words, whatever the case of their ASCII letters.

    Args:
        text: the cells.
        words: the words, upper case.
        of: which cells can be one at all.
    """
    wanted = pa.array(words, pa.string())

    def judge(part: Column) -> Mask:
        return as_mask(pc.is_in(pc.call_function("ascii_upper", [part]), value_set=wanted))

    return _of_some(text, of, judge)


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


def put(column: Column, places: Places, values: Sequence[object]) -> Column:
    """Return a column with other values at these rows (ascending)."""
    if not len(places):
        return column
    mask = np.zeros(len(column), dtype=np.bool_)
    mask[places] = True
    replaced: Column = pc.call_function(
        "replace_with_mask", [column, pa.array(mask), pa.array(values, column.type)]
    )
    return replaced


def joined(columns: Sequence[Column], separator: str) -> Column:
    """Return the cells of several text columns joined, absent ones left out; null if all are."""
    text, *others = columns
    for other in others:
        both = _together(text, other, pa.scalar(separator))
        text = first_present([both, text, other])
    return text


def text_length(text: Column) -> npt.NDArray[np.int64]:
    """Return the length of each cell in bytes, 0 where absent."""
    lengths = pc.call_function("binary_length", [text])
    return np.array(lengths.fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)


def ending(text: Column, characters: int, *, after: str) -> Column:
    """Return the last characters of each cell of ASCII text, behind a fixed beginning."""
    tail = pc.call_function("utf8_slice_codeunits", [text], pc.SliceOptions(-characters))
    return _together(pa.scalar(after), tail, pa.scalar(""))


def lower(text: Column) -> Column:
    """Return a column with its ASCII letters in lower case."""
    result: Column = pc.call_function("ascii_lower", [text])
    return result


def first_present(columns: Sequence[Column]) -> Column:
    """Return in each row the first cell of these columns that holds a value."""
    result: Column = pc.call_function("coalesce", list(columns))
    return result


def _together(left: Column | pa.StringScalar, right: Column, separator: pa.StringScalar) -> Column:
    """Join cells; null where either is absent (Arrow's own skipping of nulls loses rows)."""
    options = pc.JoinOptions(null_handling="emit_null")
    inputs = [left, right, separator]
    result: Column = pc.call_function("binary_join_element_wise", inputs, options)
    return result
