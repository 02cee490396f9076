"""Read CSV: separators, title rows, quoted line ends, broken rows, exact line numbers.

Text is read record by record to limit damage: a stray quote, which would swallow every row up to
the next quote, breaks only its own line. `text` detects encodings; `columns` matches headings.
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
LONGEST_LINE = 16 << 20  # characters; a longer line means a file without line ends
csv.field_size_limit(LONGEST_LINE)  # a long value is valid; the default of `csv` is 128 KiB
MOST_LINES = 100  # lines that one record may span; a quote open for longer is a stray one
_SAMPLE_ROWS = 200  # a choice: enough to find the headings and the width of rows

_STRAY_QUOTE = 'a quotation mark is out of place; write "" for one inside a quoted value'
_STRAY_RETURN = "a line end inside a value without quotation marks"
_ENDLESS = f"a line of over {LONGEST_LINE >> 20} million characters"


def read_csv(text: TextFile, vocabulary: Vocabulary) -> RawTable:
    """Return a CSV file as a table of text; its separator is the one with most known headings."""
    sample = text.sample()
    newline = "" if text.old_line_ends else "\n"
    candidates = []
    for separator in SEPARATORS:
        lines = _Lines(io.StringIO(sample, newline=newline))
        not_blank = (row for row in _records(lines, separator, None) if "".join(row.texts).strip())
        rows = list(islice(not_blank, _SAMPLE_ROWS)) or [SourceRow(1, [""])]
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
    """Return the headings, padded with blank ones if all rows below end in surplus blank fields."""
    complete = below[:-1] or below  # the sample may end within the last row
    headings = tuple(header.texts)
    widths = {len(row.cells) for row in complete}
    width = widths.pop() if len(widths) == 1 else 0
    surplus = "".join(cell for row in complete for cell in row.texts[len(headings) :])
    return headings if surplus.strip() else headings + ("",) * (width - len(headings))


def _in_columns(row: SourceRow, separator: str, width: int) -> SourceRow:
    """Return a broken row with as many cells as the file has columns.

    Values beyond the last column are joined to it with the separator.
    """
    cells = list(row.cells[:width]) + [None] * (width - len(row.cells))
    if len(row.cells) > width:
        cells[-1] = separator.join(row.texts[width - 1 :])
    return row._replace(cells=cells, fault=f"{row.fault}; put each value under its heading")


class _Lines:
    """The lines of a text, with lookahead.

    Attributes:
        number: of the next line, from 1.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._held: deque[str] = deque()
        self._rest = ""
        self.number = 1

    def ahead(self, most: int) -> list[str]:
        """Return up to `most` next lines without their ends; none at the end."""
        while len(self._held) < most and (line := self._read()):
            self._held.append(line[:-1] if line[-1] in "\r\n" else line)
        return list(islice(self._held, most))

    def take(self, count: int) -> None:
        """Consume a number of lines, all returned by `ahead` before."""
        for _ in range(count):
            self._held.popleft()
        self.number += count

    def _read(self) -> str:
        """Return a line with its end, or the beginning of one that is too long.

        If such a line has carriage returns, the file uses them as line ends: it is cut at one.
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
    """Yield the records of a text; `width` is their number of fields, None for any number."""
    while nearby := lines.ahead(1):
        at, line = lines.number, nearby[0].removesuffix("\r")
        if len(line) >= LONGEST_LINE and "\r" not in line:
            row = SourceRow(at, line[:LONGEST_CELL].split(separator), _ENDLESS)
        elif '"' in line:
            row = _quoted(at, lines.ahead(MOST_LINES), separator, width)
        elif "\r" in line:
            parts = [part for part in line.split("\r") if part.strip()]
            if all(len(part.split(separator)) == width for part in parts):
                # each part is a complete row, so the returns are line ends, not inside a value
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
    """Return the record that begins at the first of these lines."""
    try:
        cells, taken = _parsed(lines, separator, strict=True)
        fault = _width_fault(cells, width)
    except csv.Error:
        (cells, taken), fault = _loose(lines, separator), _STRAY_QUOTE
    if fault:
        for after, line in enumerate(lines[1:taken], start=1):
            if line.strip() and line.count('"') % 2 == 0 and _is_sound(line, separator, width):
                # a line that is a complete row does not belong to the broken record above it
                cells, _ = _loose(lines[:after], separator)
                return SourceRow(at, cells, _STRAY_QUOTE, after)
    return SourceRow(at, cells, fault, taken)


def _parsed(lines: Sequence[str], separator: str, *, strict: bool) -> tuple[list[str], int]:
    """Return the fields of the first record of the lines, and its number of lines."""
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
    """Split a broken record as well as possible; if that fails, return its first line unsplit."""
    try:
        cells, taken = _parsed(lines, separator, strict=False)
    except csv.Error:
        return [lines[0]], 1
    return [*cells[:-1], cells[-1].rstrip("\r\n")], taken
