"""A workbook's parts, unpacked with a bound on each text, row and table.

A workbook is an archive, and a few megabytes of it can unpack to more than any machine holds. Here
no text of a cell, no row and no table of texts grows beyond what an honest workbook has.
`workbook_source` knows what the cells mean.
"""

from __future__ import annotations

import re
import zipfile
from typing import IO, TYPE_CHECKING, Any, Literal, Self
from xml.parsers import expat

from openpyxl.xml.constants import SHEET_MAIN_NS

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

LONGEST_CELL = 32_767
"""Characters that a cell of a workbook can hold."""
LAST_ROW = 1_048_576
"""The number of the last row that a sheet can have."""

_TEXT_BYTES = 6 * LONGEST_CELL
"""The longest text of a cell, with every character written as `&quot;`."""
_ROW_BYTES = 4 << 20
"""Two thousand columns of 2 kB each; the parser holds about forty times as much."""
_WHOLE_BYTES = 64 << 20
"""Limit of a part that is read whole: styles, names of sheets, relations."""
_WHOLE_TAGS = 100_000
"""Limit of its tags, which become objects: twenty thousand formats of cells have as many."""
_ROWS_READ = 4 * LAST_ROW
"""Rows of all sheets that are read of an archive in one go: one sheet whole, the others' first."""
_RATIO = 200
"""What is read of an archive, to its size.

Sheets unpack to 9 to 12 times their size, to 110 where every row is the same but for its number and
no cell says where it stands. Bytes of texts that are left out do not count.
"""
_STRINGS_BYTES = 512 << 20
"""Limit of the table of texts, which the parser keeps in memory.

A million rows of 20 such columns.
"""
_STRINGS_RATIO = 100
"""Different texts do not compress so well; only counted from `_FEW_STRINGS_BYTES` on."""
_FEW_STRINGS_BYTES = 16 << 20
"""A table of texts up to this size is read however well it was packed.

Takes some seconds at most.
"""
_SMALL_BYTES = 2 << 20
"""So much is read of any archive."""
_STRINGS = "sharedStrings"
_ROW = re.compile(rb"</?(?:\w+:)?(?:row|si)[\s>/]")
_LONGEST_ENTITY = 16
_CONTINUED = range(0x80, 0xC0)
"""Bytes inside a character of UTF-8."""


class SwollenWorkbookError(Exception):
    """A part unpacks to more than an honest workbook has; its text says which part."""


class BoundedArchive(zipfile.ZipFile):
    """A workbook's archive whose parts are read with bounds.

    A part may be read several times, and one sheet may stand under many names: the bounds of what
    is read hold over all of it.
    """

    _bytes_read = 0
    _rows_read = 0

    def open(
        self,
        name: str | zipfile.ZipInfo,
        mode: Literal["r", "w"] = "r",
        pwd: bytes | None = None,
        *,
        force_zip64: bool = False,
    ) -> IO[bytes]:
        """Open a part for reading."""
        info = name if isinstance(name, zipfile.ZipInfo) else self.getinfo(name)
        if _STRINGS in info.filename and _crowded(info.file_size, info):
            raise SwollenWorkbookError(info.filename)  # the archive says so itself
        raw = super().open(info, mode, pwd, force_zip64=force_zip64)
        part: Any = _BoundedPart(raw, info, self._count)
        opened: IO[bytes] = part
        return opened

    def _count(self, block: bytes) -> bool:
        """Count what is read; return whether it is more than any honest workbook has."""
        self._bytes_read += len(block)
        self._rows_read += block.count(b"<row") + block.count(b":row")
        allowed = max(_SMALL_BYTES, _RATIO * self.start_dir)
        return self._rows_read > _ROWS_READ or self._bytes_read > allowed


class _BoundedPart:
    """One part as a stream: what a text has beyond the bound is left out, the rest refused."""

    def __init__(
        self, raw: IO[bytes], info: zipfile.ZipInfo, count: Callable[[bytes], bool]
    ) -> None:
        self._raw = raw
        self._crowds_archive = count
        self._name = info.filename
        self._info = info
        self._strings = _STRINGS in info.filename
        self._total = 0
        self._since_row = 0
        self._run = 0  # bytes since the last tag began
        self._in_tag = False
        self._leaving_out = False
        self._tail = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the part."""
        self._raw.close()

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; all of them only of a part of moderate size."""
        if size is None or size < 0:
            whole = self._raw.read(_WHOLE_BYTES + 1)
            if len(whole) > _WHOLE_BYTES or whole.count(b"<") > _WHOLE_TAGS:
                raise self._swollen()
            return whole
        while block := self._raw.read(min(size, _TEXT_BYTES // 2)):
            if bounded := self._bounded(block):
                return bounded
        return b""

    def _bounded(self, block: bytes) -> bytes:
        tag = block.find(b"<")
        if tag < 0:
            self._run += len(block)
            self._in_tag = self._in_tag and b">" not in block
            if self._run > _TEXT_BYTES:
                block = self._cut(block)
        else:
            if self._leaving_out:
                block, self._leaving_out = block[tag:], False
            last = block.rfind(b"<")
            self._run = len(block) - last
            self._in_tag = block.find(b">", last) < 0
        self._count(block)
        self._tail = (self._tail + block)[-_LONGEST_ENTITY:]
        return block

    def _cut(self, block: bytes) -> bytes:
        """Return what of a text too long still goes on: up to where no character is broken."""
        if self._in_tag:
            raise self._swollen()
        if self._leaving_out:
            return b""
        self._leaving_out = True
        before = len(self._tail)
        window = self._tail + block
        for end in range(before, min(len(window), before + 2 * _LONGEST_ENTITY)):
            entity = window.rfind(b"&", 0, end)
            whole = entity < 0 or window.find(b";", entity, end) >= 0
            if whole and window[end] not in _CONTINUED:
                return block[: end - before]
        return b""

    def _count(self, block: bytes) -> None:
        self._total += len(block)
        self._since_row = 0 if _ROW.search(block) else self._since_row + len(block)
        if (
            self._since_row > _ROW_BYTES
            or (self._strings and _crowded(self._total, self._info))
            or self._crowds_archive(block)
        ):
            raise self._swollen()

    def _swollen(self) -> SwollenWorkbookError:
        return SwollenWorkbookError(self._name)


def _crowded(size: int, info: zipfile.ZipInfo) -> bool:
    """Return whether a table of texts is larger than any workbook of customers has."""
    packed = max(1, info.compress_size)
    return size > _STRINGS_BYTES or (size > _FEW_STRINGS_BYTES and size > _STRINGS_RATIO * packed)


def read_strings(part: IO[bytes]) -> list[str]:
    """Return the table of texts, runs of a formatted one joined, readings of characters left out.

    It is what openpyxl's own reader returns, in a quarter of its time: that one makes five objects
    of each text.
    """
    text, item, reading = (f"{SHEET_MAIN_NS} {name}" for name in ("t", "si", "rPh"))
    found: list[str] = []
    pieces: list[str] = []
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    in_reading = False

    def begin(tag: str, _attributes: dict[str, str]) -> None:
        nonlocal in_reading
        if tag == text and not in_reading:
            parser.CharacterDataHandler = pieces.append
        elif tag == reading:
            in_reading = True

    def end(tag: str) -> None:
        nonlocal in_reading
        if tag == text:
            parser.CharacterDataHandler = None
        elif tag == item:
            found.append("".join(pieces).replace("x005F_", ""))
            pieces.clear()
        elif tag == reading:
            in_reading = False

    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.ParseFile(part)
    return found
