"""Write and read `quarantine.csv`, whose rows can be fixed and submitted again, and `problems.csv`.

The guard against spreadsheet formulas is here too, because reading a quarantine file removes it.
"""

from __future__ import annotations

import csv
import re
import shutil
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, TextIO

from nightscreen.files.private_files import atomic_write
from nightscreen.schemas.decisions import QUARANTINE_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from nightscreen.schemas.rows import Problem

PROBLEM_COLUMNS = (*QUARANTINE_COLUMNS, "action")
TRIGGERS = "=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20"
"""Characters that a spreadsheet may read as the start of a formula, full-width forms too."""

_DANGEROUS = re.compile(f"'*[{TRIGGERS}]")
GUARDED_PATTERN = f"^'('*[{TRIGGERS}])"
"""A guarded cell, for Arrow's regular expressions: the first apostrophe is the guard."""


def escape_formula(cell: str) -> str:
    """Put an apostrophe before a cell that a spreadsheet might take for a formula.

    A cell that already has apostrophes before such a character gets one more, so that
    `unescape_formula` restores every cell exactly.
    """
    return f"'{cell}" if _DANGEROUS.match(cell) else cell


def unescape_formula(cell: str) -> str:
    """Remove the guard from a cell; the exact inverse of `escape_formula`."""
    return cell[1:] if cell.startswith("'") and _DANGEROUS.match(cell) else cell


def row_writer(file: TextIO) -> Callable[[Iterable[object]], None]:
    """Return a function that writes a row; its text is guarded."""
    plain = csv.writer(file, lineterminator="\n")
    quoted = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)

    def write(cells: Iterable[object]) -> None:
        guarded = [escape_formula(cell) if isinstance(cell, str) else cell for cell in cells]
        # a lone carriage return needs quotes that the plain writer leaves out
        bare_return = any("\r" in cell for cell in guarded if isinstance(cell, str))
        (quoted if bare_return else plain).writerow(guarded)

    return write


@contextmanager
def csv_file(path: Path, names: Iterable[str]) -> Iterator[Callable[[Iterable[object]], None]]:
    """Yield a function that writes a row of a private CSV file, which appears on a clean exit.

    UTF-8 without a byte order mark, separated by commas.
    """
    with atomic_write(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        write = row_writer(file)
        write(names)
        yield write


def append_problems(path: Path, problems: Iterable[Problem]) -> None:
    """Add later problems to a `problems.csv`; the file is replaced whole."""
    with atomic_write(path) as partial:
        shutil.copyfile(path, partial)
        with partial.open("a", encoding="utf-8", newline="") as file:
            write = row_writer(file)
            for problem in problems:
                write(problem.cells)


def records(file: Path) -> Iterator[tuple[list[str], str]]:
    """Yield the cells of each record of a CSV file, without guards, and its unchanged text."""
    with file.open(encoding="utf-8", newline="") as content:
        consumed: list[str] = []

        def lines() -> Iterator[str]:
            for line in content:
                consumed.append(line)
                yield line

        for cells in csv.reader(lines()):
            yield list(map(unescape_formula, cells)), "".join(consumed)
            consumed.clear()


def named_records(file: Path) -> Iterator[tuple[dict[str, str], str]]:
    """Yield the cells of each record of a CSV file by heading, and its unchanged text.

    The first record, of the headings, has no cells.
    """
    head: list[str] = []
    for cells, text in records(file):
        yield dict(zip(head, cells, strict=False)), text
        head = head or cells


def quarantined(path: Path) -> Iterator[tuple[str, ...]]:
    """Yield only line, column, code and hint of each row of a `quarantine.csv`."""
    if not path.exists():
        return
    for cells, _ in islice(records(path), 1, None):
        yield tuple(cells[-len(QUARANTINE_COLUMNS) :])
