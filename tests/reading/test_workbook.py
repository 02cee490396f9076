"""Workbooks and Parquet: every cell comes out as the exact text that it means."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightscreen.reading.mapping_file import Mapping
from nightscreen.reading.open_file import TableSource, open_source
from nightscreen.reading.parquet import as_text
from nightscreen.schemas.errors import InputError

Row: TypeAlias = "Sequence[object]"
HEADINGS: Row = ["customer_id", "bvn", "note"]


def save(path: Path, *sheets: tuple[str, Sequence[Row]]) -> Path:
    book = openpyxl.Workbook()
    for title, rows in sheets:
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.remove(book.worksheets[0])
    book.save(path)
    return path


def values(source: TableSource) -> list[tuple[str | None, ...]]:
    return [tuple(r.values()) for b in source.batches(2) for r in b.columns.to_pylist()]


def test_cells_become_the_text_they_mean(tmp_path: Path) -> None:
    """Identifiers keep their digits, dates are ISO, what is shown with zeros keeps them."""
    cells = [
        (22212345678, "22212345678"), (22212345678.0, "22212345678"), (2.2e17, "22" + "0" * 16),
        (0.1 + 0.2, "0.3"), (1250000.5, "1250000.5"), (-3, "-3"), ("0012", "0012"),
        (date(2024, 1, 31), "2024-01-31"), (datetime(2024, 1, 31, 9, 5), "2024-01-31T09:05:00"),  # noqa: DTZ001 - as sheets have them
        (time(9, 5), "09:05:00"), (True, "true"), (None, None), ("  x ", "  x "),
    ]  # fmt: skip
    rows: list[Row] = [["C1", cell, None] for cell, _ in cells]
    path = save(tmp_path / "batch.xlsx", ("S", [HEADINGS, *rows]))
    book = openpyxl.load_workbook(path)
    book["S"]["C2"] = 123456789
    book["S"]["C2"].number_format = "0000000000"
    book.save(path)
    found = values(open_source(path))
    assert [row[1] for row in found] == [text for _, text in cells]
    assert found[0][2] == "0123456789"


def test_lines_are_rows_of_the_sheet(tmp_path: Path) -> None:
    """Titles and blank rows count; short rows are filled up, notes far right left out."""
    rows: list[Row] = [["Acme"], [], HEADINGS, ["C1", 1], [], [None, " "], ["C2", 2, "x"]]
    rows += [["C3"]] * 40 + [["C4", None, None, None, "far"]]
    source = open_source(save(tmp_path / "batch.xlsx", ("S", rows)))
    batch = next(source.batches())
    assert batch.lines == [4, 7, *range(8, 49)]
    assert batch.columns.column("note").to_pylist()[:2] == [None, "x"]
    assert "found in row 3" in source.header.findings[0]


def test_the_first_filled_visible_sheet_is_read_and_others_told(tmp_path: Path) -> None:
    """Empty and hidden sheets are passed over."""
    table: list[Row] = [HEADINGS, ["C1", "1", "x"]]
    path = save(tmp_path / "b.xlsx", ("Cover", []), ("Old", table), ("May", table), ("June", table))
    book = openpyxl.load_workbook(path)
    book["Old"].sheet_state = "hidden"
    book.save(path)
    source = open_source(path)
    assert source.table.sheet == "May"
    assert source.header.findings[0].startswith('The sheet "May" is read; June also hold rows.')


def test_the_mapping_names_the_sheet(tmp_path: Path) -> None:
    """A name that is not there is reported with those that are."""
    table: list[Row] = [HEADINGS, ["C1", "1", "x"]]
    path = save(tmp_path / "b.xlsx", ("May", table), ("June", [HEADINGS, ["C2", "2", "y"]]))
    assert values(open_source(path, mapping=Mapping(sheet="june"))) == [("C2", "2", "y")]
    with pytest.raises(InputError, match='no sheet "Juni"'):
        open_source(path, mapping=Mapping(sheet="Juni"))


def test_an_empty_workbook_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no visible sheet holds anything"):
        open_source(save(tmp_path / "a.xlsx", ("S", [])))
    with pytest.raises(InputError, match="no rows below the headings"):
        open_source(save(tmp_path / "b.xlsx", ("S", [HEADINGS])))


def test_a_damaged_workbook_is_told_wherever_it_is_damaged(tmp_path: Path) -> None:
    """One line, whichever byte is wrong; some damage leaves the cells as they were."""
    rows = [[f"C{number}", str(number), "x"] for number in range(50)]
    whole = save(tmp_path / "whole.xlsx", ("S", [HEADINGS, *rows])).read_bytes()
    path = tmp_path / "batch.xlsx"
    refused = 0
    for at in range(4, len(whole), 97):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            values(open_source(path))
        except InputError as error:
            refused += 1
            assert "\n" not in str(error)  # noqa: PT017 - some damage is harmless
    assert refused


UTC = dt.UTC
NOON = dt.datetime(2024, 1, 31, 12, 0, tzinfo=UTC)


TYPES: list[tuple[pa.Array[Any], list[str | None]]] = [
    (pa.array([22212345678, None]), ["22212345678", None]),
    (pa.array([22212345678.0, float("nan"), None]), ["22212345678", None, None]),
    (pa.array([0.1, 1e22, 1.5e-7]), ["0.1", "10000000000000000000000", "0.00000015"]),
    (pa.array([0.1, 16777216.0], pa.float32()), ["0.1", "16777216"]),
    (pa.array([Decimal("1250000.50"), None]), ["1250000.50", None]),
    (pa.array([Decimal(1200)], pa.decimal128(10, -2)), ["1200"]),
    (pa.array([dt.date(1988, 4, 12), None]), ["1988-04-12", None]),
    (pa.array([NOON], pa.timestamp("us", "UTC")), ["2024-01-31T12:00:00+0000"]),
    (pa.array([NOON], pa.timestamp("us", "Africa/Lagos")), ["2024-01-31T13:00:00+0100"]),
    (pa.array([NOON], pa.timestamp("ms", "+01:00")), ["2024-01-31T13:00:00+0100"]),
    (pa.array([NOON.replace(tzinfo=None)], pa.timestamp("ns")), ["2024-01-31T12:00:00"]),
    (pa.array([1_500], pa.timestamp("ms")), ["1970-01-01T00:00:01.500"]),
    (pa.array([dt.time(9, 5)]), ["09:05:00"]),
    (pa.array([True, False, None]), ["true", "false", None]),
    (pa.array(["007", ""], pa.large_string()), ["007", ""]),
    (pa.array([b"007"]), ["007"]),
    (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
    (pa.nulls(2), [None, None]),
    (pa.array([[1, 2], None]), ["[1, 2]", None]),
    (pa.array([{"é": "x"}]), ['{"é": "x"}']),
]


def test_each_type_has_its_text() -> None:
    """No decimals on whole numbers, no exponents, null stays null."""
    for array, expected in TYPES:
        assert as_text(array).to_pylist() == expected, (array, expected)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_floats_come_back_exactly(numbers: list[float]) -> None:
    """Their text has no exponent and reads as the same number."""
    texts = as_text(pa.array(numbers, pa.float64())).to_pylist()
    assert [float(text or "") for text in texts] == numbers
    assert not any("e" in (text or "").casefold() for text in texts)


@given(
    st.lists(
        st.decimals(
            allow_nan=False, allow_infinity=False, places=4, min_value=-(10**12), max_value=10**12
        )
    )
)
def test_decimals_come_back_exactly(numbers: list[Decimal]) -> None:
    """All places stay, zeros at the end included."""
    texts = as_text(pa.array(numbers, pa.decimal128(38, 4))).to_pylist()
    assert [Decimal(text or "").as_tuple() for text in texts] == [n.as_tuple() for n in numbers]


def test_a_pandas_file_with_gaps_keeps_its_identifiers(tmp_path: Path) -> None:
    """Whole numbers that pandas made floats are whole again; rows count from 1."""
    path = tmp_path / "batch.bin"
    pd.DataFrame({"customer_id": ["C1", "C2"], "bvn": [22212345678, None]}).to_parquet(path)
    source = open_source(path)
    batch = next(source.batches())
    assert (source.format, batch.lines) == ("parquet", [1, 2])
    assert batch.columns.to_pylist() == [
        {"customer_id": "C1", "bvn": "22212345678"},
        {"customer_id": "C2", "bvn": None},
    ]


def test_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    """A column of raw bytes cannot be carried."""
    path = tmp_path / "batch.parquet"
    pq.write_table(pa.table({"customer_id": ["C1"], "photo": [b"\xff\xd8"]}), path)
    with pytest.raises(InputError, match="the column photo of type binary has no plain text"):
        open_source(path)
