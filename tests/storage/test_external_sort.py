"""Rows laid out in a file come back in the order asked for, whatever fits memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from nightscreen.files import external_sort
from nightscreen.files.external_sort import SortedFile

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema([pa.field("number", pa.int64()), pa.field("word", pa.string())])


def rows_in(path: Path, sizes: list[int]) -> SortedFile:
    """Return numbered rows in batches of some sizes."""
    first = 0
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as writer:
        for size in sizes:
            numbers = list(range(first, first + size))
            words = [f"row {number}" for number in numbers]
            writer.write_batch(pa.record_batch([numbers, words], schema=SCHEMA))
            first += size
    return SortedFile.of(path)


@pytest.mark.parametrize(("group", "block"), [(7, 3), (24_576, 8_192)])
def test_rows_come_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: int, block: int
) -> None:
    """Every row once, in the order asked for; no group is left behind."""
    monkeypatch.setattr(external_sort, "GROUP_ROWS", group)
    monkeypatch.setattr(external_sort, "BLOCK_ROWS", block)
    order = np.random.default_rng(3).permutation(40)
    rows = rows_in(tmp_path / "came", [10, 1, 25, 4]).sorted_into(tmp_path / "sorted", order)
    assert len(rows) == 40
    assert rows.having("word", "row 13").tolist() == np.flatnonzero(order == 13).tolist()
    assert [table["number"].to_pylist() for table in rows.take(np.arange(40), 40)] == [
        order.tolist()
    ]
    places = np.array([0, 1, 2, 9, 17, 39])
    tables = list(rows.take(places, 4))
    assert [table.num_rows for table in tables] == [4, 2]
    words = [word for table in tables for word in table["word"].to_pylist()]
    assert words == [f"row {number}" for number in order[places]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["came", "sorted"]


def test_no_rows_are_no_rows(tmp_path: Path) -> None:
    """A list may be empty."""
    rows = rows_in(tmp_path / "came", []).sorted_into(tmp_path / "sorted", np.zeros(0, np.int64))
    assert len(rows) == 0
    assert rows.having("word", "row 1").tolist() == []
    assert list(rows.take(np.zeros(0, np.int64))) == []
