"""Read CSV: encodings, separators, title rows, quoted line ends, broken rows, exact line numbers.

No letter is guessed silently: the whole file is decoded once before its first row is used, so that
damage in the last line is reported first. Text is read record by record to limit damage: a stray
quote, which would swallow every row up to the next quote, breaks only its own line. `columns`
matches headings.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import deque
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, TextIO

from nightscreen.reading.columns import LONGEST_CELL, RawTable, SourceRow
from nightscreen.schemas.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from nightscreen.reading.columns import Vocabulary

SAMPLE_CHARACTERS = 1 << 20
"""Characters in which to find headings, separators and line ends: thousands of rows."""
MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_BLOCK_BYTES = 256 * 1024
_WINDOWS_ONLY = re.compile(rb"[^\x00-\x7f\x80\x85\x91-\x97\xa0\xa3\xa9\xae\xb0\xb4\xc0-\xff]")
"""Bytes that are no letters or common marks in Windows-1252, but are used in other code pages."""
_LETTER_RUN = re.compile(rb"[\xc0-\xff]{3}")
"""Three accented letters in a row: a word in another alphabet, not in Windows-1252."""
_GARBLED = re.compile("[\u00c2\u00c3][\u0080-\u00bf]|\u00e2\u20ac|\ufffd")
"""UTF-8 that was read as Windows-1252 and saved again, or lost letters."""
_LONE_RETURN = re.compile(r"\r(?!\n)")
_CONTROLS = bytes(set(range(0x20)) - {*b"\t\n\f\r\x1b"})  # bytes that are rare in text
_BINARY_SHARE = 0.1
"""Share of such bytes from which a file is not text; a stray one only breaks its row."""


@dataclass(frozen=True, slots=True)
class TextFile:
    """A text file with its encoding."""

    path: Path
    encoding: str  # `utf-8`, UTF-16 or UTF-32 in either byte order, or `windows-1252`
    mark_bytes: int = 0  # length of the byte order mark
    old_line_ends: bool = False  # some or all lines end in a carriage return alone
    findings: tuple[str, ...] = ()

    def open(self) -> io.TextIOWrapper:
        """Open the text after its byte order mark; line ends are not translated."""
        raw = self.path.open("rb")
        raw.read(self.mark_bytes)
        newline = "" if self.old_line_ends else "\n"
        return io.TextIOWrapper(raw, encoding=self.encoding, newline=newline)

    def sample(self) -> str:
        """Return the beginning of the text."""
        with self.open() as file:
            return file.read(SAMPLE_CHARACTERS)


def open_text(path: Path, start: bytes) -> TextFile:
    """Detect the encoding of a text file.

    Raises:
        InputError: it is damaged, binary, or its encoding is not certain.
    """
    encoding, mark_bytes, finding = _encoding(path, start)
    text = TextFile(path, encoding, mark_bytes)
    sample = text.sample()
    findings = [finding] if finding else []
    if _GARBLED.search(sample):
        findings.append(
            "Some letters look garbled, as when text passes through a wrong encoding before it is "
            "saved; check names with accents against the source."
        )
    line_ends = _about_line_ends(sample)
    if line_ends:
        findings.append(line_ends)
    return replace(text, old_line_ends=bool(line_ends), findings=tuple(findings))


def _about_line_ends(sample: str) -> str:
    """Return a finding if lines end in a carriage return alone: all of them, or at least half.

    A single one among other line ends is inside a value, and breaks only its row.
    """
    outside = '"'.join(sample.split('"')[::2])  # in quotes a return is part of a value
    lone = len(_LONE_RETURN.findall(outside))
    feeds = outside.count("\n")
    if not lone or (feeds > lone and not _LONE_RETURN.search(outside[: outside.find("\n")])):
        return ""
    if feeds:
        return "Line ends are mixed: some are a carriage return alone; each ends a line."
    return "Lines end in a carriage return alone, as on old Macs."


def _encoding(path: Path, start: bytes) -> tuple[str, int, str]:
    """Return the encoding, the length of its mark, and a finding for the analyst."""
    marked = next((each for each in MARKS if start.startswith(each[0])), None)
    mark, encoding = marked or (b"", _unmarked_wide(start))
    if encoding:
        line = _first_fault(path, len(mark), encoding)
        if line is not None:
            raise InputError(
                f"{path}: damaged {encoding.upper()} text in line {line}; "
                'save it again as "CSV UTF-8" from the program it came from'
            )
        without = "" if mark else " without a byte order mark"
        finding = "" if encoding == "utf-8" else f"The file is {encoding.upper()} text{without}."
        return encoding, len(mark), finding
    if b"\0" in start:
        others = len(start.translate(None, _CONTROLS))
        if 1 - others / len(start) >= _BINARY_SHARE:
            raise InputError(f"{path}: not a text file; give CSV, XLSX or Parquet")
    if _first_fault(path, 0, "utf-8") is None:
        return "utf-8", 0, ""
    return "windows-1252", 0, _judge_windows(path)


def _unmarked_wide(start: bytes) -> str:
    """Return the encoding of UTF-16 or UTF-32 without a mark; empty for other text.

    Every other byte of UTF-16, and three of four bytes of UTF-32, are mostly zero.
    """
    zeros = [start[at::4].count(0) > 0.7 * (len(start) // 4) for at in range(4)]
    if zeros[1:3] == [True, True] and zeros[0] != zeros[3]:
        return "utf-32-be" if zeros[0] else "utf-32-le"
    for first, order in ((1, "le"), (0, "be")):
        if len(start) > 1 and start[first::2].count(0) > 0.7 * (len(start) // 2):
            return f"utf-16-{order}"
    return ""


def _first_fault(path: Path, skip: int, encoding: str) -> int | None:
    """Return the first line, from 1, that is not valid after these bytes; None if all are."""
    decoder, line = codecs.getincrementaldecoder(encoding)(), 1
    try:
        with path.open("rb") as file:
            file.seek(skip)
            while block := file.read(_BLOCK_BYTES):
                line += decoder.decode(block).count("\n")
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        return line + error.object[: error.start].decode(encoding, errors="ignore").count("\n")
    return None


def _judge_windows(path: Path) -> str:
    """Return the finding that a file is Windows-1252, if that is certain.

    Raises:
        InputError: it may be another encoding, or mixes encodings.
    """
    lines = first = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.isascii():
                continue
            lines, first = lines + 1, first or number
            is_utf8 = "\ufffd" not in line.decode(errors="replace")
            if is_utf8 or _WINDOWS_ONLY.search(line) or _LETTER_RUN.search(line):
                raise InputError(
                    f"{path}: the letters in line {number} are neither plain UTF-8 nor plain "
                    'Windows-1252, and guessing would garble names; save it as "CSV UTF-8"'
                )
    return (
        f"The file is Windows-1252 text, not UTF-8; {lines} line(s) hold accented letters, the "
        f'first is line {first}: check the names there, or save the file as "CSV UTF-8".'
    )


# --- rows ---

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
