"""A list's rows as text, whole columns at a time: lines of CSV, and rows of a workbook's sheet.

Cells are typed: text, decimals, whole numbers, days, and instants, which are shown in Lagos time.
No cell is a formula. Which rows there are, and in which files, is decided elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from xlsxwriter.utility import xl_col_to_name  # type: ignore[import-untyped]  # has no types

from nightscreen.files.arrow_bytes import Edges, inside, table_of
from nightscreen.files.quarantine import TRIGGERS
from nightscreen.schemas.clock import DAY_MICROS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

LONGEST_TEXT = 32_767
"""Characters that a cell of a workbook can hold."""

_LAGOS_MICROS = 3_600_000_000  # one hour before UTC all year, since 1919
_EPOCH_DAYS = 25_569  # 1970-01-01 as workbooks count days
_DANGEROUS = f"^'*[{TRIGGERS}]"
_NEEDS_QUOTES = '[",\r\n]'
_BLANK_EDGES = r"^\s|\s$"
_NO_XML = r"[\x00-\x08\x0b-\x1f\x{fffe}\x{ffff}]|_x[0-9a-fA-F]{4}_"
_LINE_END = "\r\n"


def csv_lines(rows: pa.Table, *, blanks: int) -> bytes:
    """Return rows as lines of CSV, each with some more blank cells at its end."""
    if not rows.num_rows:
        return b""
    cells = [_csv_text(_one(column)) for column in rows.columns]
    lines = _joined([*cells, *([""] * blanks)], ",")
    return _all_bytes(_joined([lines, _LINE_END], ""))


def _all_bytes(texts: pa.Array) -> bytes:
    """Return texts, none of them null, one behind the other."""
    offsets, data = inside(texts)
    return data[offsets[0] : offsets[-1]].tobytes()


class _Looks(NamedTuple):
    """What may be among a column's texts; a false flag is certain.

    Attributes:
        guarded: one that a spreadsheet might take for a formula.
        quoted: one that CSV has to quote.
        edged: one with a blank at its beginning or end.
        strange: one that XML cannot hold as it is.
        marked: one with a character that XML escapes.
        empty: one without a character.
        long: one that a cell can hardly hold.
    """

    guarded: bool
    quoted: bool
    edged: bool
    strange: bool
    marked: bool
    empty: bool
    long: bool

    @classmethod
    def of(cls, texts: pa.Array) -> _Looks:
        """Look at all bytes of a column at once: much quicker than a pattern for each text."""
        ends, data = inside(texts)
        edges = Edges.of(texts)
        whole = _any_of(_INSIDE[data[ends[0] : ends[-1]]])
        first, last = _any_of(_FIRST[edges.first]), _any_of(_LAST[edges.last])
        return cls(
            guarded=bool(first & 1),
            quoted=bool(whole & 1),
            edged=bool(first & 2) or bool(last),
            strange=bool(whole & 2),
            marked=bool(whole & 4),
            empty=not edges.lengths.all(),
            long=bool((edges.lengths >= LONGEST_TEXT).any()),
        )


def _any_of(bits: NDArray[np.uint8]) -> int:
    return int(np.bitwise_or.reduce(bits, initial=0))


_SPACES = "\t\n\f\r "
_CONTROLS = "".join(map(chr, range(32)))
_INSIDE = table_of('",\r\n', f"{_CONTROLS}_\ufffe\uffff", "&<>")
_FIRST = table_of(f"'{TRIGGERS}", _SPACES)
_LAST = table_of(_SPACES)


def _csv_text(column: pa.Array) -> pa.Array:
    """Return a column as CSV has it: ISO dates and instants, text safe to open; "" for nothing."""
    kind = column.type
    if pa.types.is_string(kind):
        looks = _Looks.of(column)
        text = guarded(column) if looks.guarded else column
        return _quoted(text) if looks.quoted else text
    if pa.types.is_timestamp(kind):
        seconds = pc.floor_temporal(_local(column), unit="second").cast(pa.timestamp("s"))
        text = pc.strftime(seconds, format="%Y-%m-%dT%H:%M:%S")
        return _joined([text, "+01:00"], "", nulls="emit_null")
    return column.cast(pa.string())


def guarded(column: pa.Array) -> pa.Array:
    """Return text with an apostrophe before whatever a spreadsheet might take for a formula."""
    dangerous = pc.match_substring_regex(column, _DANGEROUS)
    if not pc.any(dangerous).as_py():
        return column
    return pc.if_else(dangerous, _joined(["'", column], "", nulls="emit_null"), column)


def _quoted(column: pa.Array) -> pa.Array:
    needs = pc.match_substring_regex(column, _NEEDS_QUOTES)
    if not pc.any(needs).as_py():
        return column
    inside = pc.replace_substring(column, '"', '""')
    return pc.if_else(needs, _joined(['"', inside, '"'], ""), column)


def _local(column: pa.Array) -> pa.Array:
    """Return instants as Lagos's clocks show them, without a zone."""
    micros = column.cast(pa.int64())
    return pc.add(micros, _LAGOS_MICROS).cast(pa.timestamp("us"))


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _joined(parts: Sequence[pa.Array | str], separator: str, *, nulls: str = "replace") -> pa.Array:
    """Join texts row by row; a null counts as nothing, or makes the whole null."""
    options = pc.JoinOptions(null_handling=nulls, null_replacement="")
    return pc.call_function("binary_join_element_wise", [*parts, separator], options)


def sheet_rows(rows: pa.Table, styles: Sequence[str], first: int) -> bytes:
    """Return rows of a sheet as SpreadsheetML; an empty cell is left out.

    Args:
        rows: the cells.
        styles: of each column: the attribute that names a cell's style, or nothing.
        first: number of the first row, from 1.
    """
    if not rows.num_rows:
        return b""
    numbers = pa.array(np.arange(first, first + rows.num_rows)).cast(pa.string())
    parts: list[pa.Array | str] = ['<row r="', numbers, '">']
    for index, (column, style) in enumerate(zip(rows.columns, styles, strict=True)):
        parts += _cell(_one(column), f'<c r="{xl_col_to_name(index)}', numbers, style)
    parts.append("</row>")
    return _all_bytes(_joined(parts, ""))


def _cell(column: pa.Array, begin: str, numbers: pa.Array, style: str) -> list[pa.Array | str]:
    """Return what a column's cells are joined of: elements, null where there is none."""
    if not pa.types.is_string(column.type):
        parts = [begin, numbers, f'"{style}><v>', _number(column), "</v></c>"]
        return [_joined(parts, "", nulls="emit_null")] if column.null_count else parts
    looks = _Looks.of(column)
    text, space = _sheet_text(column, looks)
    parts = [begin, numbers, f'"{style} t="inlineStr"><is><t', space, ">", text, "</t></is></c>"]
    if not looks.empty:
        return parts
    cells = _joined(parts, "", nulls="emit_null")
    return [pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), cells)]


def _number(column: pa.Array) -> pa.Array:
    """Return numbers, days and instants as a workbook has them."""
    kind = column.type
    if pa.types.is_date(kind):
        return pc.add(column.cast(pa.int32()), _EPOCH_DAYS).cast(pa.string())
    if pa.types.is_timestamp(kind):
        micros = _local(column).cast(pa.int64()).cast(pa.float64())
        return pc.add(pc.divide(micros, float(DAY_MICROS)), float(_EPOCH_DAYS)).cast(pa.string())
    return column.cast(pa.string())


def _sheet_text(column: pa.Array, looks: _Looks) -> tuple[pa.Array, pa.Array | str]:
    """Return text that is safe to open and in XML, and the attribute that keeps outer blanks."""
    text = guarded(column) if looks.guarded else column
    if looks.long or looks.guarded:
        text = pc.utf8_slice_codeunits(text, 0, LONGEST_TEXT)
    space: pa.Array | str = ""
    if looks.edged or looks.long:
        edges = pc.match_substring_regex(text, _BLANK_EDGES)
        if pc.any(edges).as_py():
            space = pc.if_else(edges, ' xml:space="preserve"', "")
    if looks.strange:
        strange = pc.match_substring_regex(text, _NO_XML)
        if pc.any(strange).as_py():
            spelt = pa.array(map(_spelt_out, text.to_pylist()), pa.string())
            text = pc.if_else(strange, spelt, text)
    for mark, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")) if looks.marked else ():
        text = pc.replace_substring(text, mark, name)
    return text, space


def _spelt_out(text: str | None) -> str | None:
    """Write what XML cannot hold as workbooks do: `_x0001_`, and `_x005F_` before what looks so."""
    if text is None:
        return None
    found = []
    for index, letter in enumerate(text):
        if letter == "_" and _looks_spelt(text[index : index + 7]):
            found.append("_x005F_")
        elif (letter < " " and letter not in "\t\n") or letter in "\ufffe\uffff":
            found.append(f"_x{ord(letter):04X}_")
        else:
            found.append(letter)
    return "".join(found)


def _looks_spelt(word: str) -> bool:
    """Return whether a word of seven characters reads as a character spelt out."""
    digits = word[2:6]
    hexadecimal = len(digits) == 4 and all(digit in "0123456789abcdefABCDEF" for digit in digits)  # noqa: PLR2004 - _xHHHH_
    return word[:2] == "_x" and word[6:] == "_" and hexadecimal
