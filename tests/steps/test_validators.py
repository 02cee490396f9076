"""Absent words and the digits inside what people and spreadsheets put round them."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightscreen.values.issues import absent_words, bare_digits, is_absent, trimmed

ABSENT = [
    *["", "-", "--", "\u2014", "0", "00000000000", "0.0", "NIL", "nil", "N/A", "n/a", "NA", "None"],
    *["NULL", "#N/A", "Not Available", "undefined", "NaN", "<NA>", "0000-00-00"],
]


@pytest.mark.parametrize("cell", ABSENT)
def test_words_for_nothing_are_nothing(cell: str) -> None:
    """Blank, dashes, zeros and the words of the list stand for an absent value."""
    assert is_absent(cell)
    assert trimmed(pa.array([f"  {cell}\u00a0"])).to_pylist() == [None]


@pytest.mark.parametrize("cell", ["0", "0.00", "000"])
def test_zero_is_an_amount_where_it_is_said_to_be(cell: str) -> None:
    """Zero naira at risk is not an unknown exposure."""
    assert not is_absent(cell, zero_is_value=True)
    assert trimmed(pa.array([cell]), zero_is_value=True).to_pylist() == [cell]


@pytest.mark.parametrize("cell", ["Nila", "0803", "10", "Nana", "NA Bello", "x", "O", "-5"])
def test_other_words_stay(cell: str) -> None:
    """A word that only begins like an absent one is a value."""
    assert not is_absent(cell)
    assert trimmed(pa.array([f" {cell}\t"])).to_pylist() == [cell]


UNSEEN_MARKS = re.compile(
    "[\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"
)
texts = st.text(max_size=20) | st.sampled_from(sorted(absent_words())) | st.from_regex(r"[0.-]*")


@settings(deadline=None)
@given(st.lists(st.none() | texts, max_size=20), st.booleans())
def test_column_equals_its_cells(cells: list[str | None], zero: bool) -> None:
    """The whole column is emptied of absent words, and of marks not seen, as each cell would be."""
    bare = trimmed(pa.array(cells, pa.string()), zero_is_value=zero).to_pylist()
    for cell, value in zip(cells, bare, strict=True):
        seen = UNSEEN_MARKS.sub("", cell or "")
        if value is not None:
            assert not is_absent(value, zero_is_value=zero)
            assert value in seen
        else:
            assert cell is None or is_absent(
                seen.strip("\u200b\ufeff \t\r\n\v\f\u00a0\u2007\u202f\u3000"), zero_is_value=zero
            )


@pytest.mark.parametrize("cell", ["I2345", "O1234", "12a", "\u0661\u0662", "1.5", "1,23"])
def test_letters_and_other_signs_never_become_digits(cell: str) -> None:
    """Only what surely is round the digits goes."""
    assert bare_digits(cell) == cell
