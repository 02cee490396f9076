"""CSV and its kin: separators, title rows, quoted line ends, broken rows, exact line numbers.

Text is cut into segments that end where a record ends. A segment whose quotes are all in order goes
through Arrow whole, with line numbers counted from its line ends; any other is read record by
record in `csv_careful`. Encodings belong to `text_stream`, what headings mean to `column_mapping`.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from nightscreen.reading import csv_careful as careful
from nightscreen.reading.raw_table import RawTable, numbered_names, regroup, text_batch
from nightscreen.reading.text_stream import LONE_RETURN
from nightscreen.schemas.rows import RefusedRow, SourceBatch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nightscreen.reading.headings import Vocabulary
    from nightscreen.reading.text_stream import TextFile

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
QUOTE, NEWLINE, RETURN = b'"\n\r'
LONGEST_LINE = 16 << 20
"""Bytes of a line: beyond it is no row, but a file without line ends."""
TAIL_BYTES = 1 << 20
"""How much text may follow the last whole record before its open quote counts as a stray one."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The format of a CSV file.

    Attributes:
        separator: one character.
        headings: as the file has them, filled up with blanks to the width of the rows.
        first_line: line of the first row below the headings.
        findings: the findings about it.
    """

    separator: str
    headings: tuple[str, ...]
    first_line: int
    findings: tuple[str, ...]

    @property
    def width(self) -> int:
        """The number of columns of the file."""
        return len(self.headings)


def read_csv(text: TextFile, vocabulary: Vocabulary) -> RawTable:
    """Return a CSV file as a table of text."""
    shape = find_shape(text.sample(), vocabulary)
    return RawTable(
        format="csv",
        headings=shape.headings,
        read=lambda rows: regroup(_pieces(text, shape), rows),
        findings=(*text.findings, *shape.findings),
        encoding=text.encoding,
        separator=SEPARATORS[shape.separator],
    )


def find_shape(sample: bytes, vocabulary: Vocabulary) -> Shape:
    """Find separator and headings at the start of a file: the line with most known headings."""
    lines = sample.decode(errors="ignore").split("\n")
    readings = [(separator, _records(lines, separator)) for separator in SEPARATORS]
    scored = [
        (vocabulary.header_row([r.fields for r in records]), separator, records)
        for separator, records in readings
    ]
    (at, score), separator, records = max(
        scored, key=lambda candidate: (candidate[0][1], _width_at(candidate[2], candidate[0][0]))
    )
    header = records[at] if records else careful.CsvRecord(1, 1, [""], None)
    findings = []
    if separator != ",":
        findings.append(f"Columns are separated by {SEPARATORS[separator]}s.")
    above = sum(
        1
        for record in records[:at]
        if any(cell.strip() for cell in record.fields)
        and not record.fields[0].casefold().startswith("sep=")
    )
    if above and score:
        findings.append(
            f"The headings were found in line {header.line}; everything above them is left out."
        )
    headings = _padded(header.fields, records[at + 1 :])
    return Shape(separator, headings, header.line + header.taken, tuple(findings))


def _records(lines: Sequence[str], separator: str) -> list[careful.CsvRecord]:
    """Return the first records of a sample, blank lines left out."""
    reading = careful.records(lines, separator, width=None, first_line=1, final=True)
    found = []
    for record in reading:
        if any(cell.strip() for cell in record.fields):
            found.append(record)
        if len(found) >= 2 * careful.MOST_LINES:
            break
    return found


def _width_at(records: Sequence[careful.CsvRecord], at: int) -> int:
    return len(records[at].fields) if records else 0


def _padded(headings: Sequence[str], below: Sequence[careful.CsvRecord]) -> tuple[str, ...]:
    """Add blank headings where all rows below end in the same number of surplus blank fields."""
    widths = {len(record.fields) for record in below[:-1] or below}
    width = widths.pop() if len(widths) == 1 else 0
    surplus = [cell for record in below[:-1] or below for cell in record.fields[len(headings) :]]
    if width > len(headings) and not any(cell.strip() for cell in surplus):
        return (*headings, *[""] * (width - len(headings)))
    return tuple(headings)


def _pieces(text: TextFile, shape: Shape) -> Iterator[SourceBatch]:
    """Yield the rows of a file, a segment at a time."""
    pending = b""
    line = shape.first_line
    for block in _bounded_lines(_below_headings(text.blocks(), shape.first_line - 1), shape):
        pending += block
        piece, used, lines = _segment(pending, line, shape, final=False)
        if piece is not None:
            yield piece
        pending, line = pending[used:], line + lines
    while pending:
        piece, used, lines = _segment(pending, line, shape, final=True)
        if piece is not None:
            yield piece
        pending, line = pending[used:], line + lines


def _bounded_lines(blocks: Iterator[bytes], shape: Shape) -> Iterator[bytes]:
    """Cut lines that are longer than any row: they break as rows, and reading goes on below.

    If such a line has only carriage returns, its program changed to them midway: each then ends a
    line.
    """
    length = 0
    for whole in blocks:
        block = whole
        end = block.find(b"\n")
        if length + (len(block) if end < 0 else end) > LONGEST_LINE:
            if LONE_RETURN.search(block[:-1]):
                block = LONE_RETURN.sub(b"\n", block)
            else:
                first = shape.separator.encode() * shape.width if length <= LONGEST_LINE else b""
                block = first + (b"" if end < 0 else block[end:])
            end = block.find(b"\n")
        length = length + len(whole) if end < 0 else len(block) - block.rfind(b"\n") - 1
        yield block


def _below_headings(blocks: Iterator[bytes], lines: int) -> Iterator[bytes]:
    """Leave out the first lines."""
    for block in blocks:
        rest = block
        while lines and rest:
            end = rest.find(b"\n") + 1
            lines -= 1 if end else 0
            rest = rest[end:] if end else b""
        if rest:
            yield rest


def _segment(
    data: bytes, line: int, shape: Shape, *, final: bool
) -> tuple[SourceBatch | None, int, int]:
    """Read the whole records at the beginning of `data`.

    Returns:
        The rows, how many bytes and how many lines were used; nothing where more text is needed.
    """
    separator = shape.separator.encode()
    text = np.frombuffer(data, dtype=np.uint8)
    line_ends = np.flatnonzero(text == NEWLINE)
    quotes = np.flatnonzero(text == QUOTE)
    record_ends = _record_ends(line_ends, quotes)
    used = len(data) if final else _after(line_ends, record_ends)
    if used and _in_order(text, quotes, used, ord(separator)):
        piece = _whole(data[:used], line, shape, line_ends, record_ends)
        if piece is not None:
            return piece, used, int(np.searchsorted(line_ends, used))
    open_lines = len(line_ends) - (int(record_ends[-1]) + 1 if len(record_ends) else 0)
    tail_too_long = open_lines > careful.MOST_LINES or len(data) - used > TAIL_BYTES
    if used or final or tail_too_long:
        return _carefully(data, line, shape, final=final)
    return None, 0, 0


def _record_ends(line_ends: np.ndarray, quotes: np.ndarray) -> np.ndarray:
    """Return which line ends also end a record: those with an even number of quotes before."""
    if not len(quotes):
        return np.arange(len(line_ends))
    return np.flatnonzero(np.searchsorted(quotes, line_ends) % 2 == 0)


def _after(line_ends: np.ndarray, record_ends: np.ndarray) -> int:
    return int(line_ends[record_ends[-1]]) + 1 if len(record_ends) else 0


def _in_order(text: np.ndarray, quotes: np.ndarray, used: int, separator: int) -> bool:
    """Say whether every quote opens at the beginning or closes at the end of a field."""
    quotes = quotes[: np.searchsorted(quotes, used)]
    if not len(quotes):
        return True
    if len(quotes) % 2:
        return False
    opening, closing = quotes[0::2], quotes[1::2]
    before = np.where(opening > 0, text[opening - 1], NEWLINE)
    after = np.where(closing + 1 < used, text[np.minimum(closing + 1, used - 1)], NEWLINE)
    opens = (before == separator) | (before == NEWLINE)
    opens[1:] |= opening[1:] == closing[:-1] + 1
    closes = (after == separator) | (after == NEWLINE) | (after == RETURN)
    closes[:-1] |= closing[:-1] + 1 == opening[1:]
    return bool(opens.all() and closes.all())


def _whole(
    data: bytes, line: int, shape: Shape, line_ends: np.ndarray, record_ends: np.ndarray
) -> SourceBatch | None:
    """Read a segment through Arrow; None if Arrow sees other records than the quotes say."""
    invalid: list[pa_csv.InvalidRow] = []
    table = _through_arrow(data, shape, invalid)
    inside = record_ends[line_ends[record_ends] < len(data)]
    count = len(inside) + (0 if data.endswith(b"\n") else 1)
    if table.num_rows + len(invalid) != count or any(bad.number is None for bad in invalid):
        return None
    lines = line + np.concatenate(([0], inside + 1))[:count]
    bad_at = [bad.number - 1 for bad in invalid if bad.number is not None]
    broken = [
        careful.refused(int(lines[at]), fields, shape.width, shape.separator)
        for at, bad in zip(bad_at, invalid, strict=True)
        if any(map(str.strip, fields := careful.loose_fields(bad.text, shape.separator)))
    ]
    good = np.delete(lines, bad_at) if bad_at else lines
    arrays = [column.combine_chunks() for column in table.columns]
    columns = pa.RecordBatch.from_arrays(arrays, names=table.column_names)
    return SourceBatch(lines=good.tolist(), columns=columns, broken=broken)


def _through_arrow(data: bytes, shape: Shape, invalid: list[pa_csv.InvalidRow]) -> pa.Table:
    names = numbered_names(len(shape.headings))

    def note(row: pa_csv.InvalidRow) -> Literal["skip"]:
        invalid.append(row)
        return "skip"

    return pa_csv.read_csv(
        io.BytesIO(data),
        read_options=pa_csv.ReadOptions(
            use_threads=False, block_size=len(data) + 1, column_names=names
        ),
        parse_options=pa_csv.ParseOptions(
            delimiter=shape.separator,
            newlines_in_values=b'"' in data,
            ignore_empty_lines=False,
            invalid_row_handler=note,
        ),
        convert_options=pa_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
        ),
    )


def _carefully(
    data: bytes, line: int, shape: Shape, *, final: bool
) -> tuple[SourceBatch | None, int, int]:
    """Read what is whole in `data` record by record."""
    whole = data if final else data[: data.rfind(b"\n") + 1]
    lines = whole.removesuffix(b"\n").split(b"\n") if whole else []
    rows: list[list[str | None]] = []
    starts: list[int] = []
    broken: list[RefusedRow] = []
    taken = 0
    for record in careful.records(
        [text.decode() for text in lines],
        shape.separator,
        width=shape.width,
        first_line=line,
        final=final,
    ):
        taken += record.taken
        if record.fault is None:
            rows.append(list(record.fields))
            starts.append(record.line)
        elif any(field.strip() for field in record.fields):
            broken.append(_refused(record, shape))
    used = sum(len(text) + 1 for text in lines[:taken])
    piece = text_batch(rows, starts, shape.width, broken)
    return (piece if taken else None), min(used, len(data)), taken


def _refused(record: careful.CsvRecord, shape: Shape) -> RefusedRow:
    return careful.refused(record.line, record.fields, shape.width, shape.separator, record.fault)
