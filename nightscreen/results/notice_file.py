"""`notices.csv`: the notices for customers, and the same file filled in.

Plain UTF-8, comma separated, cells guarded against spreadsheets. `results/notices.py` decides
who gets which text.
"""

from __future__ import annotations

import csv
from itertools import chain
from typing import TYPE_CHECKING

from nightscreen.files.private_files import atomic_write
from nightscreen.files.quarantine import escape_formula
from nightscreen.reading.open_file import returned_tables
from nightscreen.schemas.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

TOLD_COLUMNS = ("told_at", "told_how", "told_by")
"""Left empty for the person who tells the customer."""
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
    for table in returned_tables(path, NOTICE_COLUMNS):
        names = [" ".join(heading.split()).casefold() for heading in table.headings]
        missing = [name for name in NEEDED_BACK if name not in names]
        if missing:
            raise InputError(
                f"{path}: this is no notices.csv that came back: it lacks {', '.join(missing)}; "
                "keep its headings, and save it as CSV"
            )
        for line, cells in table.rows:
            row = dict(zip(names, map(str.strip, cells), strict=False))
            if any(row.get(name) for name in TOLD_COLUMNS):
                yield line, row
