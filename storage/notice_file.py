"""`notices.csv`: what customers are to be told, and the same file back with when and how they were.

Plain UTF-8, comma separated, cells guarded against spreadsheets. What is said to whom is decided in
`steps/results/notices.py`.
"""

from __future__ import annotations

import csv
from itertools import chain
from typing import TYPE_CHECKING

from nightscreen.schemas.errors import InputError
from nightscreen.storage.csv_source import read_csv
from nightscreen.storage.files import atomic_write
from nightscreen.storage.headings import Vocabulary, fold
from nightscreen.storage.quarantine import escape_formula, unescape_formula
from nightscreen.storage.text_stream import open_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

NOTICES_FILE = "notices.csv"
TOLD_COLUMNS = ("told_at", "told_how", "told_by")
"""Left empty for whoever tells the customer."""
NOTICE_COLUMNS = (
    "customer_id",
    "channel",
    "decision",
    "action",
    "reason_code",
    "sentence",
    "sentence_digest",
    "details",
    "language",
    "decided_by",
    "decided_at",
    "run_id",
    *TOLD_COLUMNS,
)
NEEDED_BACK = ("customer_id", "reason_code", "sentence_digest", "run_id", "told_at", "told_how")
_START_BYTES = 1 << 16
_READ_ROWS = 2000


def write_notices_file(path: Path, rows: Iterable[Mapping[str, str]]) -> int:
    """Write notices, whole or not at all; return how many there are."""
    number = -1  # the headings
    with atomic_write(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        headings = dict(zip(NOTICE_COLUMNS, NOTICE_COLUMNS, strict=True))
        for row in chain([headings], rows):
            writer.writerow(escape_formula(row.get(name, "")) for name in NOTICE_COLUMNS)
            number += 1
    return number


def read_told(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield line and cells of each notice that says when or how the customer was told.

    Raises:
        InputError: it is no list of notices, or cannot be read.
    """
    try:
        with path.open("rb") as file:
            start = file.read(_START_BYTES)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    if not start.strip():
        raise InputError(f"{path}: the file is empty; save the list again")
    own = frozenset(map(fold, NOTICE_COLUMNS))
    vocabulary = Vocabulary(own=own, ids=frozenset([fold("customer_id")]))
    table = read_csv(open_text(path, start), vocabulary)
    names = [" ".join(heading.split()).casefold() for heading in table.headings]
    missing = [name for name in NEEDED_BACK if name not in names]
    if missing:
        raise InputError(
            f"{path}: this is no notices.csv that came back: it lacks {', '.join(missing)}; keep "
            "its headings, and save it as CSV"
        )
    for batch in table.read(_READ_ROWS):
        if batch.broken:
            broken = batch.broken[0]
            raise InputError(f"{path}: line {broken.line}: {broken.hint}; then import it again")
        columns = (column.to_pylist() for column in batch.columns.columns)
        for line, cells in zip(batch.lines, zip(*columns, strict=True), strict=True):
            texts = (unescape_formula(cell or "").strip() for cell in cells)
            row = dict(zip(names, texts, strict=False))
            if any(row.get(name) for name in TOLD_COLUMNS):
                yield line, row
