"""CSV and its kin: separators, title rows, quoted line ends, broken rows, exact line numbers.

Text is read record by record, so that the damage stays small: a stray quote would swallow every row
up to the next quote; here it breaks only its own line, and reading goes on below. Encodings belong
to `text`, what headings mean to `columns`.
"""

from __future__ import annotations

import csv
import io
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, TextIO

from nightscreen.reading.batches import LONGEST_CELL, RawTable, SourceRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nightscreen.reading.columns import Vocabulary
    from nightscreen.reading.text import TextFile

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
LONGEST_LINE = 16 << 20  # characters of a line: beyond it is no row, but a file without line ends
csv.field_size_limit(LONGEST_LINE)  # a long value is no damage; of itself `csv` stops at 128 KiB
MOST_LINES = 100  # how many lines one record may span; a quote open for longer is a stray one
_SAMPLE_ROWS = 200  # a choice: the first may be headings, and all of them show how wide rows are

_STRAY_QUOTE = 'a quotation mark is out of place; write "" for one inside a quoted value'
_STRAY_RETURN = "a line end inside a value without quotation marks"
_ENDLESS = f"a line of over {LONGEST_LINE >> 20} million characters"


def read_csv(text: TextFile, vocabulary: Vocabulary) -> RawTable:
    """Return a CSV file as a table of text.

    Its separator is the one under which most headings are known.
    """
    sample = text.sample()
    newline = "" if text.old_line_ends else "\n"
    candidates = []
    for separator in SEPARATORS:
        lines = _Lines(io.StringIO(sample, newline=newline))
        filled = (row for row in _records(lines, separator, None) if "".join(row.texts).strip())
        rows = list(islice(filled, _SAMPLE_ROWS)) or [SourceRow(1, [""])]
        at, score = vocabulary.header_row([row.cells for row in rows])
        candidates.append((score, len(rows[at].cells), separator, rows, at))
    score, _, separator, rows, at = max(candidates, key=lambda candidate: candidate[:2])
    header = rows[at]
    findings = list(text.findings)
    if separator != ",":
        findings.append(f"Columns are separated by {SEPARATORS[separator]}s.")
    above = [row for row in rows[:at] if not row.texts[0].casefold().startswith("sep=")]
    if above and score:
        findings.append(
            f"The headings were found in line {header.line}; everything above them is left out."
        )
    headings = _padded(header, rows[at + 1 :])

    def read() -> Iterator[SourceRow]:
        with text.open() as file:
            lines = _Lines(file)
            for _ in range(header.line + header.taken - 1):
                lines.take(len(lines.ahead(1)))
            for row in _records(lines, separator, len(headings)):
                if not row.fault:
                    yield row
                elif "".join(row.texts).strip():
                    yield _in_columns(row, separator, len(headings))

    return RawTable(
        format="csv",
        headings=headings,
        rows=read,
        findings=tuple(findings),
        encoding=text.encoding,
        separator=SEPARATORS[separator],
    )


def _padded(header: SourceRow, below: Sequence[SourceRow]) -> tuple[str, ...]:
    """Return headings, with blank ones where all rows below end in as many surplus blank fields."""
    whole = below[:-1] or below  # the sample may end within the last
    headings = tuple(header.texts)
    widths = {len(row.cells) for row in whole}
    width = widths.pop() if len(widths) == 1 else 0
    surplus = "".join(cell for row in whole for cell in row.texts[len(headings) :])
    return headings if surplus.strip() else headings + ("",) * (width - len(headings))


def _in_columns(row: SourceRow, separator: str, width: int) -> SourceRow:
    """Return a broken row with its values in the file's columns as far as they go.

    Values beyond the last column stay in the last one, separated as they were.
    """
    cells = list(row.cells[:width]) + [None] * (width - len(row.cells))
    if len(row.cells) > width:
        cells[-1] = separator.join(row.texts[width - 1 :])
    return row._replace(cells=cells, fault=f"{row.fault}; put each value under its heading")


class _Lines:
    """The lines of a text, of which the next can be looked at before they are taken.

    Attributes:
        number: of the next line, from 1.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._held: deque[str] = deque()
        self._rest = ""
        self.number = 1

    def ahead(self, most: int) -> list[str]:
        """Return the next lines without their ends, at most so many; none at the end."""
        while len(self._held) < most and (line := self._read()):
            self._held.append(line[:-1] if line[-1] in "\r\n" else line)
        return list(islice(self._held, most))

    def take(self, count: int) -> None:
        """Go on behind so many lines, which were looked at."""
        for _ in range(count):
            self._held.popleft()
        self.number += count

    def _read(self) -> str:
        """Return a line with its end; of one that is too long the beginning.

        If such a line has carriage returns, its program changed to them midway: it is cut at one.
        """
        line = self._rest + self._file.readline(LONGEST_LINE)
        self._rest = ""
        if len(line) >= LONGEST_LINE and line[-1] not in "\r\n":
            whole, mark, rest = line.rpartition("\r")
            if mark:
                self._rest = rest
                return whole + mark
            while (more := self._file.readline(LONGEST_LINE)) and more[-1] != "\n":
                pass
        return line


def _records(lines: _Lines, separator: str, width: int | None) -> Iterator[SourceRow]:
    """Yield the records of a text.

    `width` is how many fields a record must have; None for any number.
    """
    while nearby := lines.ahead(1):
        at, line = lines.number, nearby[0].removesuffix("\r")
        if len(line) >= LONGEST_LINE and "\r" not in line:
            row = SourceRow(at, line[:LONGEST_CELL].split(separator), _ENDLESS)
        elif '"' in line:
            row = _quoted(at, lines.ahead(MOST_LINES), separator, width)
        elif "\r" in line:
            parts = [part for part in line.split("\r") if part.strip()]
            if all(len(part.split(separator)) == width for part in parts):
                # each is a row by itself, so the returns are line ends, not inside a value
                yield from (SourceRow(at, part.split(separator)) for part in parts)
                lines.take(1)
                continue
            row = SourceRow(at, line.split(separator), _STRAY_RETURN)
        else:
            cells = line.split(separator)
            row = SourceRow(at, cells, _width_fault(cells, width))
        yield row
        lines.take(row.taken)


def _quoted(at: int, lines: Sequence[str], separator: str, width: int | None) -> SourceRow:
    """Return the record that begins with the first of these lines."""
    try:
        cells, taken = _parsed(lines, separator, strict=True)
        fault = _width_fault(cells, width)
    except csv.Error:
        (cells, taken), fault = _loose(lines, separator), _STRAY_QUOTE
    if fault:
        for after, line in enumerate(lines[1:taken], start=1):
            if line.strip() and line.count('"') % 2 == 0 and _is_sound(line, separator, width):
                # what is a row by itself is no part of the damage above it
                cells, _ = _loose(lines[:after], separator)
                return SourceRow(at, cells, _STRAY_QUOTE, after)
    return SourceRow(at, cells, fault, taken)


def _parsed(lines: Sequence[str], separator: str, *, strict: bool) -> tuple[list[str], int]:
    """Return the fields of the record that begins the lines, and how many lines it takes."""
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=separator, strict=strict)
    return next(reader), reader.line_num


def _width_fault(cells: Sequence[object], width: int | None) -> str:
    if width is None or len(cells) == width:
        return ""
    return f"{len(cells)} values where the headings are {width}"


def _is_sound(line: str, separator: str, width: int | None) -> bool:
    try:
        cells, _ = _parsed([line], separator, strict=True)
    except csv.Error:
        return False
    return not _width_fault(cells, width)


def _loose(lines: Sequence[str], separator: str) -> tuple[list[str], int]:
    """Split a broken record as well as can be; where that fails its first line is one piece."""
    try:
        cells, taken = _parsed(lines, separator, strict=False)
    except csv.Error:
        return [lines[0]], 1
    return [*cells[:-1], cells[-1].rstrip("\r\n")], taken
