"""Workbooks: every cell comes out as the text that the sheet means."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time
from pathlib import Path
from typing import TypeAlias

import openpyxl
import pytest

from nightscreen.reading.mapping_file import Mapping
from nightscreen.reading.open_file import TableSource, open_source
from nightscreen.schemas.errors import InputError

Row: TypeAlias = "Sequence[object]"
HEADINGS: Row = ["customer_id", "bvn", "note"]


def save(path: Path, *sheets: tuple[str, Sequence[Row]]) -> Path:
    """Write a workbook of named sheets."""
    book = openpyxl.Workbook()
    for title, rows in sheets:
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.remove(book.worksheets[0])
    book.save(path)
    return path


def values(source: TableSource) -> list[tuple[str | None, ...]]:
    """Return all rows."""
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
    """So is one that holds headings only."""
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
