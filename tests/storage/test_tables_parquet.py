"""Parquet: any types, rendered to exact text."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightscreen.reading.open_file import open_source
from nightscreen.reading.parquet import as_text
from nightscreen.schemas.errors import InputError

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
