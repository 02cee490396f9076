"""JSON Lines: one object a line, every value as text exactly as it is written.

Numbers never pass through a float. `column_mapping` knows what headings mean, `text_stream.py`
encodings.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from nightscreen.schemas.errors import InputError
from nightscreen.schemas.rows import RefusedRow, SourceBatch
from nightscreen.storage.raw_table import BROKEN, MOST_COLUMNS, RawTable, regroup, text_batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nightscreen.storage.text_stream import TextFile

PIECE_ROWS = 2048
LONGEST_LINE = 16 << 20
SHOWN_OF_LONGEST = 1000
"""How much is kept of a line that is too long."""
BROKEN_OBJECT = "not one whole JSON object; put each value under its heading"
HALF_CHARACTER = "half a character (\\ud800 to \\udfff alone); write the whole one"
NEW_KEYS = (
    f"keys beyond the {MOST_COLUMNS} different ones that a file may have; give every line the same"
)
_MAY_BE_HALF = re.compile(r"\\u[dD][89a-fA-F]")


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


_DECODER = json.JSONDecoder(
    parse_int=_Number, parse_float=_Number, parse_constant=lambda _: None, strict=False
)


def read_jsonl(text: TextFile) -> RawTable:
    """Return JSON Lines as a table of text; its columns are the keys of all lines together.

    All lines are read once for their keys: one that first occurs far down, such as a withdrawn
    consent, must not be lost.

    Raises:
        InputError: no line holds a JSON object.
    """
    keys: dict[str, None] = {}
    for _, line in _lines(text):
        row = _parsed(line)
        if isinstance(row, dict):
            new = row.keys() - keys
            if len(keys) + len(new) <= MOST_COLUMNS:
                keys.update(dict.fromkeys(row))
    if not keys:
        raise InputError(
            f"{text.path}: no line holds a JSON object of at most {MOST_COLUMNS} keys; write one "
            "object a line"
        )
    headings = tuple(keys)
    return RawTable(
        format="jsonl",
        headings=headings,
        read=lambda rows: regroup(_pieces(text, headings), rows),
        findings=text.findings,
        encoding=text.encoding,
    )


def _lines(text: TextFile) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, with their numbers.

    A line that is too long is cut, and is then no whole object any more.
    """
    pending = b""
    number = 0
    for block in text.blocks():
        *lines, rest = block.split(b"\n")
        if not lines:
            pending += rest if len(pending) <= LONGEST_LINE else b""
            continue
        lines[0] = pending + lines[0]
        pending = rest
        for number, line in enumerate(lines, start=number + 1):  # noqa: B020 - counts on from the last block
            if line.strip():
                yield number, _shortened(line).decode(errors="replace")
    if pending.strip():
        yield number + 1, _shortened(pending).decode(errors="replace")


def _shortened(line: bytes) -> bytes:
    return line if len(line) <= LONGEST_LINE else line[:SHOWN_OF_LONGEST]


def _parsed(line: str) -> dict[str, object] | str:
    """Return the object of a line, or what is wrong with it."""
    try:
        row = _DECODER.decode(line.strip())
        if isinstance(row, dict):
            if _MAY_BE_HALF.search(line):
                json.dumps(row, ensure_ascii=False).encode()
            return row
    except UnicodeEncodeError:
        return HALF_CHARACTER
    except (ValueError, RecursionError):
        pass
    return BROKEN_OBJECT


def _pieces(text: TextFile, headings: tuple[str, ...]) -> Iterator[SourceBatch]:
    known = frozenset(headings)
    rows: list[list[str | None]] = []
    lines: list[int] = []
    broken: list[RefusedRow] = []
    for number, line in _lines(text):
        row = _parsed(line)
        fault = row if isinstance(row, str) else None if known.issuperset(row) else NEW_KEYS
        if isinstance(row, str) or fault:
            broken.append(_refused(number, line, len(headings), fault or BROKEN_OBJECT))
        else:
            rows.append([_text(row.get(key)) for key in headings])
            lines.append(number)
        if len(rows) + len(broken) == PIECE_ROWS:
            yield text_batch(rows, lines, len(headings), broken)
            rows, lines, broken = [], [], []
    yield text_batch(rows, lines, len(headings), broken)


def _refused(number: int, line: str, width: int, hint: str) -> RefusedRow:
    """Return a line that cannot be used, whole in the first column."""
    values = (line.strip(), *[None] * (width - 1))
    return RefusedRow(line=number, column="", code=BROKEN, hint=hint, values=values)


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return _json(value)


def _json(value: object) -> str:
    """Return a nested value as JSON, its numbers as they were written."""
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key, ensure_ascii=False)}: {_json(v)}" for key, v in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_json, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
