"""CSV and its kin: separators, title rows, quoted line ends, broken rows, exact line numbers.

Text is read record by record, so that the damage stays small: a stray quote would swallow every row
up to the next quote; here it breaks only its own line, and reading goes on below. Encodings belong
to `text_stream`, what headings mean to `column_mapping`.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from nightscreen.reading.raw_table import BROKEN, RawTable, regroup, text_batch
from nightscreen.reading.text_stream import LONE_RETURN
from nightscreen.schemas.rows import RefusedRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nightscreen.reading.headings import Vocabulary
    from nightscreen.reading.text_stream import TextFile
    from nightscreen.schemas.rows import SourceBatch

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
LONGEST_LINE = 16 << 20
"""Bytes of a line: beyond it is no row, but a file without line ends."""
csv.field_size_limit(LONGEST_LINE)  # a long value is no damage; of itself `csv` stops at 128 KiB
MOST_LINES = 100
"""How many lines one record may span; a quote open for longer is a stray one."""

STRAY_QUOTE = 'a quotation mark is out of place; write "" for one inside a quoted value'
STRAY_RETURN = "a line end inside a value without quotation marks"


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
    readings = [(separator, _first_records(lines, separator)) for separator in SEPARATORS]
    scored = [
        (vocabulary.header_row([r.fields for r in records]), separator, records)
        for separator, records in readings
    ]
    (at, score), separator, records = max(
        scored, key=lambda candidate: (candidate[0][1], _width_at(candidate[2], candidate[0][0]))
    )
    header = records[at] if records else CsvRecord(1, 1, [""], None)
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


def _first_records(lines: Sequence[str], separator: str) -> list[CsvRecord]:
    """Return the first records of a sample, blank lines left out."""
    reading = _records(lines, separator, width=None, first_line=1, final=True)
    found = []
    for record in reading:
        if any(cell.strip() for cell in record.fields):
            found.append(record)
        if len(found) >= 2 * MOST_LINES:
            break
    return found


def _width_at(records: Sequence[CsvRecord], at: int) -> int:
    return len(records[at].fields) if records else 0


def _padded(headings: Sequence[str], below: Sequence[CsvRecord]) -> tuple[str, ...]:
    """Add blank headings where all rows below end in the same number of surplus blank fields."""
    widths = {len(record.fields) for record in below[:-1] or below}
    width = widths.pop() if len(widths) == 1 else 0
    surplus = [cell for record in below[:-1] or below for cell in record.fields[len(headings) :]]
    if width > len(headings) and not any(cell.strip() for cell in surplus):
        return (*headings, *[""] * (width - len(headings)))
    return tuple(headings)


def _pieces(text: TextFile, shape: Shape) -> Iterator[SourceBatch]:
    """Yield the rows of a file, a block of text at a time."""
    pending = b""
    line = shape.first_line
    for block in _bounded_lines(_below_headings(text.blocks(), shape.first_line - 1), shape):
        pending += block
        piece, used, lines = _rows_of(pending, line, shape, final=False)
        if lines:
            yield piece
        pending, line = pending[used:], line + lines
    if pending:
        piece, _, _ = _rows_of(pending, line, shape, final=True)
        yield piece


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


def _rows_of(data: bytes, line: int, shape: Shape, *, final: bool) -> tuple[SourceBatch, int, int]:
    """Read what is whole in some text.

    Returns:
        The rows, how many bytes and how many lines were used.
    """
    whole = data if final else data[: data.rfind(b"\n") + 1]
    lines = whole.removesuffix(b"\n").split(b"\n") if whole else []
    rows: list[list[str | None]] = []
    starts: list[int] = []
    broken: list[RefusedRow] = []
    taken = 0
    for record in _records(
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
    return text_batch(rows, starts, shape.width, broken), min(used, len(data)), taken


class CsvRecord(NamedTuple):
    """One record: its first line, how many lines it took, its fields, and what is wrong with it."""

    line: int
    taken: int
    fields: list[str]
    fault: str | None


def _records(
    lines: Sequence[str], separator: str, *, width: int | None, first_line: int, final: bool
) -> Iterator[CsvRecord]:
    """Yield the records of some lines of text.

    Args:
        lines: without their line feeds.
        separator: one character.
        width: how many fields a record must have; None for any number.
        first_line: number of the first line.
        final: whether the text ends here; else a record that may go on is left for the next call.
    """
    at = 0
    while at < len(lines):
        parts = _split_at_returns(lines[at], separator, width)
        if parts:
            for number, fields in enumerate(parts, start=1):
                yield CsvRecord(first_line + at, int(number == len(parts)), fields, None)
            at += 1
            continue
        record = _next(lines, at, separator, width)
        if (
            record.fault
            and not final
            and len(lines) - at < MOST_LINES
            and _may_go_on(record, at, lines)
        ):
            return
        yield record._replace(line=first_line + at)
        at += record.taken


def _split_at_returns(line: str, separator: str, width: int | None) -> list[list[str]]:
    """Return the rows of a line in which carriage returns are line ends, or nothing.

    They are if each part is a row by itself; else they are inside a value.
    """
    bare = line.removesuffix("\r")
    if "\r" not in bare or '"' in line or width is None:
        return []
    parts = [part.split(separator) for part in bare.split("\r") if part.strip()]
    return parts if all(len(fields) == width for fields in parts) else []


def _may_go_on(record: CsvRecord, at: int, lines: Sequence[str]) -> bool:
    """Say whether a faulty record has an open quote that later text may close."""
    return record.fault == STRAY_QUOTE and _quotes(lines[at : at + record.taken]) % 2 == 1


def _quotes(lines: Sequence[str]) -> int:
    return sum(line.count('"') for line in lines)


def _next(lines: Sequence[str], at: int, separator: str, width: int | None) -> CsvRecord:
    """Return the record that begins at `at`."""
    if '"' not in lines[at]:
        line = lines[at].removesuffix("\r")
        fields = line.split(separator)
        fault = STRAY_RETURN if "\r" in line else _width_fault(fields, width)
        return CsvRecord(at, 1, fields, fault)
    try:
        fields, taken = _read(lines, at, separator, strict=True)
        fault = _width_fault(fields, width)
    except csv.Error:
        fields, taken = _read(lines, at, separator, strict=False)
        fault = STRAY_QUOTE
    if fault is None:
        return CsvRecord(at, taken, fields, None)
    spoiled = _damaged_lines(lines, at, taken, separator, width)
    if spoiled < taken:
        text = "\n".join(lines[at : at + spoiled])
        return CsvRecord(at, spoiled, _loose_fields(text, separator), STRAY_QUOTE)
    return CsvRecord(at, taken, fields, fault)


def _read(lines: Sequence[str], at: int, separator: str, *, strict: bool) -> tuple[list[str], int]:
    """Return the fields of the record that begins at `at`, and how many lines it takes."""
    text = (f"{line}\n" for line in islice(lines, at, at + MOST_LINES))
    reader = csv.reader(text, delimiter=separator, strict=strict)
    try:
        return next(reader), reader.line_num
    except csv.Error:
        if strict:
            raise
        return [lines[at]], 1


def _width_fault(fields: Sequence[str], width: int | None) -> str | None:
    if width is None or len(fields) == width:
        return None
    return f"{len(fields)} values where the headings are {width}"


def _damaged_lines(
    lines: Sequence[str], at: int, taken: int, separator: str, width: int | None
) -> int:
    """Return how many lines a faulty record takes: up to the next that is valid by itself."""
    for after in range(1, taken):
        line = lines[at + after]
        if line.strip() and line.count('"') % 2 == 0 and _sound(line, separator, width):
            return after
    return taken


def _sound(line: str, separator: str, width: int | None) -> bool:
    try:
        fields = next(csv.reader([line], delimiter=separator, strict=True))
    except csv.Error:
        return False
    return _width_fault(fields, width) is None


def _loose_fields(text: str, separator: str) -> list[str]:
    """Split the text of a broken row as well as can be; where that fails it stays in one piece."""
    try:
        return next(csv.reader([text.rstrip("\r\n")], delimiter=separator), [text])
    except csv.Error:
        return [text]


def _refused(record: CsvRecord, shape: Shape) -> RefusedRow:
    """Return a broken row for quarantine, its values in the file's columns as far as they go.

    Values beyond the last column stay in the last one, separated as they were.
    """
    fields, width = record.fields, shape.width
    values: list[str | None] = list(fields[:width])
    if len(fields) > width:
        values[-1] = shape.separator.join(fields[width - 1 :])
    values += [None] * (width - len(values))
    return RefusedRow(
        line=record.line,
        column="",
        code=BROKEN,
        hint=f"{record.fault}; put each value under its heading",
        values=tuple(values),
    )
