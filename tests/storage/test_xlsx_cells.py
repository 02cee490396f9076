"""Cells written a column at a time are those that the csv module and xlsxwriter would write."""

from __future__ import annotations

import csv
import io
import zipfile
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import openpyxl
import pyarrow as pa
import xlsxwriter  # type: ignore[import-untyped]  # has no types
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nightscreen.files.quarantine import escape_formula
from nightscreen.results.decision_files import csv_text
from nightscreen.results.xlsx_cells import LONGEST_TEXT, csv_lines
from nightscreen.results.xlsx_sheets import fill_sheets
from nightscreen.schemas.clock import LAGOS
from tests.how_many import examples

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = pa.schema(
    [
        pa.field("text", pa.string()),
        pa.field("more", pa.string()),
        pa.field("naira", pa.decimal128(20, 2)),
        pa.field("number", pa.int64()),
        pa.field("day", pa.date32()),
        pa.field("instant", pa.timestamp("us", tz="UTC")),
    ]
)
AWKWARD = st.sampled_from(
    [
        "",
        "=1+1",
        "'=1",
        " a",
        "a ",
        "a,b",
        'say "x"',
        "a\nb",
        "a\r\nb",
        "<&>",
        "_x0041_",
        "\x01",
        "\uff1d",
    ]
)
TEXT = st.none() | AWKWARD | st.text(st.characters(blacklist_categories=["Cs"]), max_size=12)
KOBO = st.integers(-(10**12), 10**12)
INSTANTS = st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - bounds have no zone
ROWS = st.lists(
    st.tuples(
        TEXT,
        TEXT,
        st.none() | KOBO.map(lambda kobo: Decimal(kobo).scaleb(-2)),
        st.none() | st.integers(-(2**40), 2**40),
        st.none() | st.dates(date(1971, 1, 1), date(2200, 1, 1)),
        st.none() | INSTANTS,
    ),
    max_size=8,
)
QUICK = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def table_of(rows: list[tuple[Any, ...]]) -> pa.Table:
    """Return rows as a table."""
    columns = zip(*rows, strict=True) if rows else [[] for _ in SCHEMA]
    arrays = [pa.array(list(each), kind.type) for each, kind in zip(columns, SCHEMA, strict=True)]
    return pa.table(arrays, schema=SCHEMA)


@given(ROWS)
@QUICK
def test_lines_are_those_of_the_csv_module(rows: list[tuple[Any, ...]]) -> None:
    """Byte for byte, quotes and guards and Lagos times included."""
    sink = io.StringIO(newline="")
    writer = csv.writer(sink, lineterminator="\r\n")
    writer.writerows([[*map(csv_text, row), "", ""] for row in rows])
    assert csv_lines(table_of(rows), blanks=2) == sink.getvalue().encode()


class Blocks:
    """A table in blocks of three rows."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def blocks(self) -> Iterator[pa.Table]:
        """Yield them."""
        for start in range(0, self._table.num_rows, 3):
            yield self._table.slice(start, 3)


def written(path: Path, rows: list[tuple[Any, ...]]) -> None:
    """Write a sheet of rows below its headings with xlsxwriter, cell by cell."""
    book = xlsxwriter.Workbook(str(path), {"constant_memory": True})
    sheet = book.add_worksheet("A")
    day = book.add_format({"num_format": "yyyy-mm-dd"})
    for column, name in enumerate(SCHEMA.names):
        sheet.write_string(0, column, name)
    for number, row in enumerate(rows, start=1):
        for column, value in enumerate(row):
            match value:
                case None | "":
                    continue
                case str():
                    sheet.write_string(number, column, escape_formula(value))
                case datetime():
                    local = value.astimezone(LAGOS).replace(tzinfo=None)
                    sheet.write_datetime(number, column, local, day)
                case date():
                    sheet.write_datetime(number, column, value, day)
                case _:
                    sheet.write_number(number, column, value)
    book.close()


def cells(path: Path) -> list[list[Any]]:
    """Return the cells of a workbook's only sheet; instants to the millisecond."""
    sheet = openpyxl.load_workbook(path).worksheets[0]
    return [
        [
            value.replace(microsecond=value.microsecond // 1000)
            if isinstance(value, datetime)
            else value
            for value in row
        ]
        for row in sheet.iter_rows(values_only=True)
    ]


SAMPLE = ("text", "text", Decimal(1), 1, date(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC))


@given(ROWS)
@settings(max_examples=examples(40), parent=QUICK)
def test_sheets_hold_what_xlsxwriter_would_write(
    tmp_path: Path, rows: list[tuple[Any, ...]]
) -> None:
    """Every cell that is there says the same, in the same place."""
    frame, plain, filled = (tmp_path / f"{name}.xlsx" for name in ("frame", "plain", "filled"))
    written(frame, [SAMPLE])
    written(plain, rows)
    with zipfile.ZipFile(frame) as source:
        fill_sheets(source, filled, {"xl/worksheets/sheet1.xml": Blocks(table_of(rows))})
    found, expected = cells(filled), cells(plain)
    width = len(SCHEMA)
    padded = [[*row, *[None] * (width - len(row))] for row in found]
    while padded and len(padded) > len(expected) and not any(padded[-1]):
        padded.pop()
    assert padded == [[*row, *[None] * (width - len(row))] for row in expected]


def test_a_text_too_long_for_a_cell_is_cut(tmp_path: Path) -> None:
    """A cell holds 32,767 characters; the CSV keeps them all."""
    rows = table_of([("é" * (LONGEST_TEXT + 9), "=x", None, None, None, None)])
    written(tmp_path / "frame.xlsx", [SAMPLE])
    with zipfile.ZipFile(tmp_path / "frame.xlsx") as source:
        fill_sheets(source, tmp_path / "a.xlsx", {"xl/worksheets/sheet1.xml": Blocks(rows)})
    assert len(cells(tmp_path / "a.xlsx")[1][0]) == LONGEST_TEXT
    assert csv_lines(rows, blanks=0).decode().count("é") == LONGEST_TEXT + 9
