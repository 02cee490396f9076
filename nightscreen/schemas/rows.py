"""Rows on their way through intake: what the file held, what it means, what was refused.

Three shapes: `SourceBatch` is text as it came; `RowBatch` is typed and under the project's own
column names; `RefusedRow` and `Problem` say what was wrong. Reading files belongs to `reading/`,
judging values to `values/`.
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
"""Where rows are merged: number of each row's customer, in the order of first rows."""
CUSTOMER_ROW = "customer_row"
"""1 for a customer's first row in `enriched`, 2 for the second and so on."""
CUSTOMER_EXPOSURE = "customer_exposure"
"""The sum of a customer's open loans, on each of its rows in `enriched`."""
EXTRA_PREFIX = "x:"  # columns that are only carried through have this prefix in a row batch


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
    """One finding: a line of `problems.csv`. Holds no value of the row, only where and what."""

    line: int
    column: str
    code: str
    hint: str
    action: Action


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A row that was refused or has a value that was not understood, and why.

    `values` are as they came, in the order of the source's own headings.
    """

    line: int
    column: str
    code: str
    hint: str
    values: tuple[str | None, ...]

    @property
    def problem(self) -> Problem:
        """Return its line of `problems.csv`, as of a row that was refused."""
        return Problem(self.line, self.column, self.code, self.hint, Action.REFUSED)


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """How one column of the file is understood."""

    heading: str  # as the file has it
    known: str | None  # the project's own column name, or None for one that is only carried through
    output: str  # the name it has in the enriched output


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """Some rows of a file as text."""

    lines: Sequence[int]  # line number of each row, header included, from 1
    # one string column for each heading, under the file's own headings made unique
    columns: pa.RecordBatch
    broken: Sequence[RefusedRow] = ()  # rows that could not be split into the file's columns


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Some rows after intake, with what was found on the way."""

    rows: pa.RecordBatch  # accepted rows in input order, in the shape of `row_schema`
    refused: Sequence[RefusedRow]  # rows for quarantine
    # accepted rows with a value that was not understood, each with its customer id
    to_correct: Sequence[tuple[str, RefusedRow]]
    problems: Sequence[Problem]  # every finding, those of refused rows included
    read: int  # how many rows of the file went in; always accepted plus refused


@dataclass(frozen=True, slots=True)
class Header:
    """A file's columns as understood, and the findings about them."""

    columns: tuple[SourceColumn, ...]
    findings: tuple[str, ...] = ()  # sentences for the analyst, most important first
    # values for known columns that the file does not have, from the mapping
    defaults: Mapping[str, str] = field(default_factory=dict)
    # `dmy`, `mdy` or `ymd` for dates that are not ISO; None where not declared
    date_order: str | None = None
    fed_back: bool = False  # the file is a quarantine file that was fixed: a part of its batch
    # index of the column with a loan's status; None where there is none
    loan_status: int | None = None
