"""Rows during intake: as text (`SourceBatch`), typed (`RowBatch`), refused (`RefusedRow`).

`reading/` reads files; `values/` interprets values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import pyarrow as pa

from nightscreen.schemas.columns import INSTANT_COLUMNS, REQUESTED, TEXT_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

INSTANT = pa.timestamp("us", tz="UTC")
NAIRA = pa.decimal128(20, 2)
CUSTOMER = "customer"
"""If rows are merged: the number of each row's customer, in the order of first rows."""
CUSTOMER_ROW = "customer_row"
"""1 for a customer's first row in `enriched`, 2 for the second and so on."""
CUSTOMER_EXPOSURE = "customer_exposure"
"""The sum of a customer's open loans, on each of its rows in `enriched`."""
EXTRA_PREFIX = "x:"  # prefix, in a row batch, of columns that are only carried through


def row_schema(extra: Sequence[str] = ()) -> pa.Schema:
    """Return the schema of a row batch.

    Columns: `line` int64 (line of the text file or row of the sheet, header included, from 1),
    `flaws` int32 (bits of `Flaw`), every known column (text as string, `date_of_birth` date32,
    `exposure` decimal naira, what is requested, consent instants as UTC microseconds), then each
    carried column as `x:<name>` string. A malformed identifier keeps its text and sets its bit; an
    absent one is null.
    """
    fields: list[pa.Field[pa.DataType]] = [
        pa.field("line", pa.int64()),
        pa.field("flaws", pa.int32()),
    ]
    fields += [pa.field(name, pa.string()) for name in TEXT_COLUMNS]
    fields += [pa.field("date_of_birth", pa.date32()), pa.field("exposure", NAIRA)]
    kinds = (NAIRA, pa.int64(), NAIRA)
    fields += [pa.field(name, kind) for name, kind in zip(REQUESTED, kinds, strict=True)]
    fields += [pa.field(name, INSTANT) for name in INSTANT_COLUMNS]
    fields += [pa.field(f"{EXTRA_PREFIX}{name}", pa.string()) for name in extra]
    return pa.schema(fields)


class Action(StrEnum):
    """The action taken on a problem."""

    REFUSED = "refused"
    INVALID = "invalid"
    REPAIRED = "repaired"
    WARNED = "warned"


@dataclass(frozen=True, slots=True)
class Problem:
    """One line of `problems.csv`, without any value of the row."""

    line: int
    column: str
    code: str
    hint: str
    action: Action

    @property
    def cells(self) -> tuple[str | int, ...]:
        """Return its cells in `problems.csv`."""
        return self.line, self.column, self.code, self.hint, self.action.value


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A row that was refused or has a value that could not be read, and why.

    `values` are as received, in the order of the file's headings.
    """

    line: int
    column: str
    code: str
    hint: str
    values: tuple[str | None, ...]

    @property
    def problem(self) -> Problem:
        """Return its line of `problems.csv`, with the action `refused`."""
        return Problem(self.line, self.column, self.code, self.hint, Action.REFUSED)

    def cells(self, width: int) -> list[str | int]:
        """Return its cells in a `quarantine.csv` of so many columns of the file."""
        values = [value or "" for value in self.values]
        blank = [""] * (width - len(values))
        return [*values, *blank, self.line, self.column, self.code, self.hint]


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """How one column of the file was matched."""

    heading: str  # in the file
    known: str | None  # the known column; None if it is only carried through
    output: str  # its name in the enriched output
    place: int = 0  # its position in the file, from 0


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """Some rows of a file as text."""

    lines: Sequence[int]  # line number of each row, header included, from 1
    # one string column for each heading of the file, with unique names
    columns: pa.RecordBatch
    broken: Sequence[RefusedRow] = ()  # rows that could not be split into columns


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Some rows after intake, with their problems."""

    rows: pa.RecordBatch  # accepted rows in input order, in the shape of `row_schema`
    refused: Sequence[RefusedRow]  # rows for quarantine
    # accepted rows with a value that could not be read, with their customer ids
    to_correct: Sequence[tuple[str, RefusedRow]]
    problems: Sequence[Problem]  # of all rows, refused ones included
    read: int  # number of rows read: always accepted plus refused


@dataclass(frozen=True, slots=True)
class Header:
    """A file's columns as matched, and the findings about them."""

    columns: tuple[SourceColumn, ...]
    findings: tuple[str, ...] = ()  # sentences for the analyst, most important first
    # values for known columns that the file lacks, from the mapping
    defaults: Mapping[str, str] = field(default_factory=dict)
    # `dmy`, `mdy` or `ymd` for dates that are not ISO; None if not declared
    date_order: str | None = None
    fed_back: bool = False  # the file is a fixed quarantine file, a part of its batch
    # index of the column with a loan's status, if there is one
    loan_status: int | None = None
