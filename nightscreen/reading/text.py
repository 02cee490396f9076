"""Detect the encoding of text files; no letter is guessed silently.

The whole file is decoded once before its first row is used, so that damage in the last line is
reported first.
"""

from __future__ import annotations

import codecs
import io
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nightscreen.schemas.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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


def _blocks(path: Path, skip: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        file.read(skip)
        while block := file.read(_BLOCK_BYTES):
            yield block


def _encoding(path: Path, start: bytes) -> tuple[str, int, str]:
    """Return the encoding, the length of its mark, and a finding for the analyst."""
    marked = next((each for each in MARKS if start.startswith(each[0])), None)
    mark, encoding = marked or (b"", _unmarked_wide(start))
    if encoding:
        line = _first_fault(_blocks(path, len(mark)), encoding)
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
    if _first_fault(_blocks(path, 0), "utf-8") is None:
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


def _first_fault(blocks: Iterator[bytes], encoding: str) -> int | None:
    """Return the first line, from 1, that is not valid; None if all are."""
    decoder = codecs.getincrementaldecoder(encoding)()
    line = 1
    try:
        for block in blocks:
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
