"""Refused rows and findings: `quarantine.csv`, which can be fixed and fed back, and `problems.csv`.

The formula guard lives here too, both ways, since reading a quarantine file back takes it off.
`runs/` decides what is refused, and why.
"""

from __future__ import annotations

import csv
import re
import shutil
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING, Self

from nightscreen.files.private_files import atomic_write
from nightscreen.schemas.decisions import QUARANTINE_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
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

    A cell that already begins with apostrophes before such a character gets one more, so that
    `unescape_formula` gives back every cell exactly.
    """
    return f"'{cell}" if _DANGEROUS.match(cell) else cell


def unescape_formula(cell: str) -> str:
    """Take the guard off a cell again; the exact inverse of `escape_formula`."""
    return cell[1:] if cell.startswith("'") and _DANGEROUS.match(cell) else cell


class _CsvFile(ExitStack):
    """A private CSV file that appears at its path when its block ends well, or not at all."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        super().__init__()
        self._path = path
        self._names = names

    def __enter__(self) -> Self:
        with ExitStack() as opening:  # unwinds what was entered where the rest fails
            partial = opening.enter_context(atomic_write(self._path))
            file = opening.enter_context(partial.open("w", encoding="utf-8", newline=""))
            self._rows = csv.writer(file, lineterminator="\n")
            self._quoted = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
            self._write_row([escape_formula(name) for name in self._names])
            self.push(opening.pop_all())
        return self

    def _write_row(self, cells: Sequence[str | int]) -> None:
        """Write a row; a lone carriage return needs quotes that the plain writer leaves out."""
        bare_return = any("\r" in cell for cell in cells if isinstance(cell, str))
        (self._quoted if bare_return else self._rows).writerow(cells)


class QuarantineWriter(_CsvFile):
    """Writes `quarantine.csv`: refused rows under the file's own headings, then where and why.

    Plain UTF-8 without a mark, comma separated. Columns: those of the source in their order, then
    `line`, `column`, `code`, `hint`. Holds identifiers in clear.
    """

    def __init__(self, path: Path, columns: Sequence[SourceColumn]) -> None:
        self._width = len(columns)
        super().__init__(path, [*(column.heading for column in columns), *QUARANTINE_COLUMNS])

    def write(self, rows: Iterable[RefusedRow]) -> None:
        """Add rows; one with fewer values than columns is filled up with blanks."""
        for row in rows:
            cells = [escape_formula(value or "") for value in row.values]
            cells += [""] * (self._width - len(cells))
            self._write_row([*cells, row.line, escape_formula(row.column), row.code, row.hint])


class ProblemsWriter(_CsvFile):
    """Writes `problems.csv`: line, column, code, hint, action; no value of any row."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, PROBLEM_COLUMNS)

    def write(self, problems: Iterable[Problem]) -> None:
        """Add findings."""
        for problem in problems:
            self._write_row(_problem_row(problem))


def _problem_row(problem: Problem) -> list[str | int]:
    place = (problem.line, escape_formula(problem.column))
    return [*place, problem.code, problem.hint, problem.action.value]


def append_problems(path: Path, problems: Iterable[Problem]) -> None:
    """Add findings that were made later to a `problems.csv`; it is replaced whole."""
    with atomic_write(path) as partial:
        shutil.copyfile(path, partial)
        with partial.open("a", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(map(_problem_row, problems))


def records(file: Path) -> Iterator[tuple[list[str], str]]:
    """Yield the cells of each record of a CSV file, without guards, and its text unchanged."""
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
    """Yield line, column, code and hint of each row of a `quarantine.csv`, and nothing else."""
    if not path.exists():
        return
    for cells, _ in islice(records(path), 1, None):
        yield tuple(cells[-len(QUARANTINE_COLUMNS) :])
