"""Write and read `quarantine.csv`, whose rows can be fixed and submitted again, and `problems.csv`.

The guard against spreadsheet formulas is here too, because reading a quarantine file removes it.
"""

from __future__ import annotations

import csv
import re
import shutil
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

from nightscreen.files.private_files import atomic_write
from nightscreen.schemas.decisions import QUARANTINE_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from nightscreen.schemas.rows import Problem, RefusedRow, SourceColumn

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


@contextmanager
def _csv_file(
    path: Path, names: Sequence[str]
) -> Iterator[Callable[[Sequence[str | int]], object]]:
    """Yield a function that writes a row of a private CSV file; it appears on a clean exit."""
    with atomic_write(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        plain = csv.writer(file, lineterminator="\n")
        quoted = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)

        def write(cells: Sequence[str | int]) -> None:
            # a lone carriage return needs quotes that the plain writer leaves out
            bare_return = any("\r" in cell for cell in cells if isinstance(cell, str))
            (quoted if bare_return else plain).writerow(cells)

        write([escape_formula(name) for name in names])
        yield write


@contextmanager
def quarantine_file(
    path: Path, columns: Sequence[SourceColumn]
) -> Iterator[Callable[[Iterable[RefusedRow]], None]]:
    """Yield a function that adds rows to `quarantine.csv`.

    UTF-8 without a byte order mark, separated by commas. Columns: those of the source in their
    order, then `line`, `column`, `code`, `hint`; a row with fewer values is filled with blanks. It
    holds identifiers in plain text.
    """
    width = len(columns)
    with _csv_file(path, [*(each.heading for each in columns), *QUARANTINE_COLUMNS]) as write_row:

        def write(rows: Iterable[RefusedRow]) -> None:
            for row in rows:
                cells = [escape_formula(value or "") for value in row.values]
                cells += [""] * (width - len(cells))
                write_row([*cells, row.line, escape_formula(row.column), row.code, row.hint])

        yield write


@contextmanager
def problems_file(path: Path) -> Iterator[Callable[[Iterable[Problem]], None]]:
    """Yield a function that adds problems to `problems.csv`: line, column, code, hint, action."""
    with _csv_file(path, PROBLEM_COLUMNS) as write_row:

        def write(problems: Iterable[Problem]) -> None:
            for problem in problems:
                write_row(_problem_row(problem))

        yield write


def _problem_row(problem: Problem) -> list[str | int]:
    place = (problem.line, escape_formula(problem.column))
    return [*place, problem.code, problem.hint, problem.action.value]


def append_problems(path: Path, problems: Iterable[Problem]) -> None:
    """Add later problems to a `problems.csv`; the file is replaced whole."""
    with atomic_write(path) as partial:
        shutil.copyfile(path, partial)
        with partial.open("a", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(map(_problem_row, problems))


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


def quarantined(path: Path) -> Iterator[tuple[str, ...]]:
    """Yield only line, column, code and hint of each row of a `quarantine.csv`."""
    if not path.exists():
        return
    for cells, _ in islice(records(path), 1, None):
        yield tuple(cells[-len(QUARANTINE_COLUMNS) :])
