"""A CSV that we wrote and that comes back from a spreadsheet program, whatever that made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nightscreen.files.quarantine import unescape_formula
from nightscreen.reading.csv_source import read_csv
from nightscreen.reading.headings import Vocabulary, fold
from nightscreen.reading.text_stream import open_text
from nightscreen.schemas.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from nightscreen.reading.raw_table import RawTable

_START_BYTES = 1 << 16
_READ_ROWS = 2048


def read_start(path: Path) -> bytes:
    """Return the first bytes of a file that came back.

    Raises:
        InputError: it cannot be read, or holds nothing.
    """
    try:
        with path.open("rb") as file:
            start = file.read(_START_BYTES)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"{path}: cannot be read ({reason}); check the path") from None
    if not start.strip():
        raise InputError(f"{path}: the file is empty; save the list again")
    return start


def returned_csv(
    path: Path, start: bytes, headings: Iterable[str]
) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """Return the headings unchanged, and line and cells of each row, without formula guards.

    Args:
        path: the file.
        start: its first bytes.
        headings: the headings that it was written with, by which they are found again.
    """
    own = frozenset(map(fold, headings))
    vocabulary = Vocabulary(own=own, ids=frozenset([fold("customer_id")]))
    table = read_csv(open_text(path, start), vocabulary)
    return list(table.headings), _rows(path, table)


def _rows(path: Path, table: RawTable) -> Iterator[tuple[int, list[str]]]:
    for batch in table.read(_READ_ROWS):
        if batch.broken:
            broken = batch.broken[0]
            raise InputError(f"{path}: line {broken.line}: {broken.hint}; then import it again")
        columns = (column.to_pylist() for column in batch.columns.columns)
        for line, cells in zip(batch.lines, zip(*columns, strict=True), strict=True):
            yield line, [unescape_formula(cell or "") for cell in cells]
