"""Text files as streams of UTF-8, whatever encoding they came in; never a letter guessed silently.

Which encoding a file has is settled by reading all of it once, so that trouble in the last line is
reported before the first row is used. Records and columns belong to `csv_source`.
"""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nightscreen.schemas.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader
    from pathlib import Path

BLOCK_BYTES = 256 * 1024
MOST_SAMPLE_BYTES = 16 * BLOCK_BYTES
GZIP_MAGIC = b"\x1f\x8b"
MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
WINDOWS_ONLY = re.compile(rb"[^\x00-\x7f\x80\x85\x91-\x97\xa0\xa3\xa9\xae\xb0\xb4\xc0-\xff]")
"""Bytes that are no letter and no common mark of Windows-1252: other code pages use them."""
LETTER_RUN = re.compile(rb"[\xc0-\xff]{3}")
"""Three accented letters in a row: a word of another alphabet, not of Windows-1252."""
GARBLED = re.compile(rb"\xc3\x83\xc2[\x80-\xbf]|\xc3\xa2\xe2\x82\xac|\xc3\x82\xc2|\xef\xbf\xbd")
"""UTF-8 that was read as Windows-1252 and saved again, or letters that are lost."""
GARBLED_TOLD = (
    "Some letters look garbled, as when text passes through a wrong encoding before it is saved; "
    "check names with accents against the source."
)
LONE_RETURN = re.compile(rb"\r(?!\n)")
CONTROLS = bytes(set(range(0x20)) - {*b"\t\n\f\r\x1b"})
"""Bytes that a text hardly has."""
BINARY_SHARE = 0.1
"""Share of such bytes from which a file is no text; a stray one breaks its row only."""
DAMAGED = (gzip.BadGzipFile, EOFError, zlib.error)


@dataclass(frozen=True, slots=True)
class TextFile:
    """A text file whose encoding is known.

    Attributes:
        path: the file.
        encoding: `utf-8`, UTF-16 or UTF-32 in either order, or `windows-1252`.
        mark_bytes: length of the byte order mark.
        gzipped: whether it is compressed.
        old_line_ends: whether lines, or some of them, end in a carriage return alone.
        findings: the findings about it.
    """

    path: Path
    encoding: str
    mark_bytes: int = 0
    gzipped: bool = False
    old_line_ends: bool = False
    findings: tuple[str, ...] = ()

    def blocks(self) -> Iterator[bytes]:
        """Yield the text as UTF-8 in blocks, without byte order mark, cut at any place."""
        blocks = _raw_blocks(self.path, self.mark_bytes, gzipped=self.gzipped)
        if self.encoding != "utf-8":
            blocks = _as_utf8(blocks, self.encoding)
        yield from _with_line_feeds(blocks) if self.old_line_ends else blocks

    def sample(self) -> bytes:
        """Return the beginning of the text as UTF-8: a block, or more where no line ends in it."""
        start = b""
        for block in self.blocks():
            start += block
            if b"\n" in block or b"\r" in block or len(start) >= MOST_SAMPLE_BYTES:
                break
        return start


def open_text(path: Path, start: bytes) -> TextFile:
    """Find out how a text file is encoded.

    Args:
        path: the file.
        start: its first bytes.

    Raises:
        InputError: it is damaged, binary, or in no encoding that can be recognised with certainty.
    """
    gzipped = start.startswith(GZIP_MAGIC)
    with _gzip_trouble(path):
        if gzipped:
            start = next(_raw_blocks(path, 0, gzipped=True), b"")
        encoding, mark_bytes, findings = _encoding(path, start, gzipped=gzipped)
        text = TextFile(path, encoding, mark_bytes, gzipped, findings=findings)
        sample = text.sample()
    if GARBLED.search(sample):
        findings = (*findings, GARBLED_TOLD)
        text = replace(text, findings=findings)
    finding = _about_line_ends(sample)
    if finding:
        return replace(text, old_line_ends=True, findings=(*findings, finding))
    return text


def _about_line_ends(sample: bytes) -> str | None:
    """Say where lines end in a carriage return alone, all of them or as many as do not.

    A single one amid other line ends is inside a value, and breaks only its row.
    """
    outside = b'"'.join(sample.split(b'"')[::2])  # in quotes a return is part of a value
    lone = len(LONE_RETURN.findall(outside))
    feeds = outside.count(b"\n")
    if not lone or (feeds > lone and not LONE_RETURN.search(outside[: outside.find(b"\n")])):
        return None
    if feeds:
        return "Line ends are mixed: some are a carriage return alone; each ends a line."
    return "Lines end in a carriage return alone, as on old Macs."


def _with_line_feeds(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Make each single carriage return a line feed."""
    held = b""
    for block in blocks:
        whole = held + block
        held = b"\r" if whole.endswith(b"\r") else b""
        yield LONE_RETURN.sub(b"\n", whole.removesuffix(b"\r") if held else whole)
    if held:
        yield b"\n"


@contextmanager
def _gzip_trouble(path: Path) -> Iterator[None]:
    try:
        yield
    except DAMAGED as error:
        raise InputError(
            f"{path}: the compressed file is damaged or cut short ({error}); fetch it again"
        ) from None


def _open(path: Path, *, gzipped: bool) -> gzip.GzipFile | BufferedReader:
    return gzip.open(path, "rb") if gzipped else path.open("rb")


def _raw_blocks(path: Path, skip: int, *, gzipped: bool) -> Iterator[bytes]:
    with _open(path, gzipped=gzipped) as file:
        file.read(skip)
        while block := file.read(BLOCK_BYTES):
            yield block


def _as_utf8(blocks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)()
    for block in blocks:
        yield decoder.decode(block).encode()
    yield decoder.decode(b"", final=True).encode()


def _encoding(path: Path, start: bytes, *, gzipped: bool) -> tuple[str, int, tuple[str, ...]]:
    """Return encoding, length of the mark and findings."""
    for mark, encoding in MARKS:
        if start.startswith(mark):
            _require_valid(path, encoding, len(mark), gzipped=gzipped)
            findings = () if encoding == "utf-8" else (f"The file is {encoding.upper()} text.",)
            return encoding, len(mark), findings
    if wide := _unmarked_wide(start):
        _require_valid(path, wide, 0, gzipped=gzipped)
        return wide, 0, (f"The file is {wide.upper()} text without a byte order mark.",)
    if b"\0" in start and _share_of_controls(start) >= BINARY_SHARE:
        raise InputError(f"{path}: not a text file; give CSV, XLSX or Parquet")
    if _first_fault(_raw_blocks(path, 0, gzipped=gzipped), "utf-8") is None:
        return "utf-8", 0, ()
    return "windows-1252", 0, (_judge_windows(path, gzipped=gzipped),)


def _share_of_controls(start: bytes) -> float:
    return 1 - len(start.translate(None, CONTROLS)) / len(start)


def _unmarked_wide(start: bytes) -> str | None:
    """Return the encoding of wide text without a mark.

    Every other byte of UTF-16, three of four bytes of UTF-32 are mostly zero.
    """
    fours = len(start) // 4
    zeros = [start[at::4].count(0) > 0.7 * fours for at in range(4)] if fours else []
    if zeros[1:3] == [True, True] and zeros[0] != zeros[3]:
        return "utf-32-be" if zeros[0] else "utf-32-le"
    pairs = len(start) // 2
    mostly = 0.7 * pairs
    if pairs and start[1::2].count(0) > mostly:
        return "utf-16-le"
    if pairs and start[::2].count(0) > mostly:
        return "utf-16-be"
    return None


def _first_fault(blocks: Iterator[bytes], encoding: str) -> int | None:
    """Return the line, from 1, in which the text stops being valid; None if it is."""
    decoder = codecs.getincrementaldecoder(encoding)()
    line = 1
    held = b""
    for block in blocks:
        try:
            line += decoder.decode(block).count("\n")
        except UnicodeDecodeError as error:
            valid = (held + block)[: error.start].decode(encoding, errors="ignore")
            return line + valid.count("\n")
        held = decoder.getstate()[0]
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return line
    return None


def _require_valid(path: Path, encoding: str, skip: int, *, gzipped: bool) -> None:
    line = _first_fault(_raw_blocks(path, skip, gzipped=gzipped), encoding)
    if line is not None:
        raise InputError(
            f"{path}: damaged {encoding.upper()} text in line {line}; "
            'save it again as "CSV UTF-8" from the program it came from'
        )


def _judge_windows(path: Path, *, gzipped: bool) -> str:
    """Say that a file is Windows-1252, where that is beyond doubt.

    Raises:
        InputError: it may as well be something else, or mixes encodings.
    """
    lines = 0
    first = 0
    for number, line in enumerate(_lines(_raw_blocks(path, 0, gzipped=gzipped)), start=1):
        if line.isascii():
            continue
        lines += 1
        first = first or number
        if WINDOWS_ONLY.search(line) or LETTER_RUN.search(line) or _is_utf8(line):
            raise InputError(
                f"{path}: the letters in line {number} are neither plain UTF-8 nor plain "
                'Windows-1252, and guessing would garble names; save it as "CSV UTF-8"'
            )
    return (
        f"The file is Windows-1252 text, not UTF-8; {lines} line(s) hold accented letters, the "
        f'first is line {first}: check the names there, or save the file as "CSV UTF-8".'
    )


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    pending = b""
    for block in blocks:
        *lines, pending = (pending + block).split(b"\n")
        yield from lines
    yield pending
