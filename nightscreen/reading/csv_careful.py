"""CSV text whose quotes are not all in order, record by record, with the damage kept small.

A stray quote would swallow every row up to the next quote: here it breaks only its own line, and
reading goes on below. The fast way for text in order is in `csv_source`.
"""

from __future__ import annotations

import csv
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from nightscreen.reading.raw_table import BROKEN
from nightscreen.schemas.rows import RefusedRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MOST_LINES = 100
"""How many lines one record may span; a quote open for longer is a stray one."""

STRAY_QUOTE = 'a quotation mark is out of place; write "" for one inside a quoted value'
STRAY_RETURN = "a line end inside a value without quotation marks"


class CsvRecord(NamedTuple):
    """One record: its first line, how many lines it took, its fields, and what is wrong with it."""

    line: int
    taken: int
    fields: list[str]
    fault: str | None


def records(
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
        return CsvRecord(at, spoiled, loose_fields(text, separator), STRAY_QUOTE)
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


def loose_fields(text: str, separator: str) -> list[str]:
    """Split the text of a broken row as well as can be; where that fails it stays in one piece."""
    try:
        return next(csv.reader([text.rstrip("\r\n")], delimiter=separator), [text])
    except csv.Error:
        return [text]


def refused(
    line: int, fields: Sequence[str], width: int, separator: str, fault: str | None = None
) -> RefusedRow:
    """Return a broken row for quarantine, its values in the file's columns as far as they go.

    Values beyond the last column stay in the last one, separated as they were.
    """
    reason = fault or _width_fault(fields, width) or STRAY_QUOTE
    values: list[str | None] = list(fields[:width])
    if len(fields) > width:
        values[-1] = separator.join(fields[width - 1 :])
    values += [None] * (width - len(values))
    return RefusedRow(
        line=line,
        column="",
        code=BROKEN,
        hint=f"{reason}; put each value under its heading",
        values=tuple(values),
    )
