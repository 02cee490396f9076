"""The check digit of account numbers: known accounts, and the column formula beside the scalar."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightscreen.values.banks import (
    NO_CHECK,
    agreeing,
    agrees,
    check_digit,
    institution_of,
    institution_sum,
)

DIGITS = "0123456789"
serials = st.text(DIGITS, min_size=9, max_size=9)
codes = st.text(DIGITS, min_size=3, max_size=3) | st.text(DIGITS, min_size=5, max_size=5)


@pytest.mark.parametrize(
    ("code", "serial", "digit"),
    [
        ("011", "000001457", 9),  # the worked example of the central bank's standard
        ("058", "012345678", 5),
        ("044", "000000000", 0),
        ("50211", "000000000", 2),
        ("50211", "200000000", 6),
    ],
)
def test_check_digit_follows_the_formula(code: str, serial: str, digit: int) -> None:
    """A 3-digit bank uses the old standard, any other institution the one of 2020."""
    assert check_digit(institution_of(code), serial) == digit


@settings(deadline=None)
@given(st.text(DIGITS, min_size=3, max_size=3), serials)
def test_banks_have_the_same_digit_by_both_standards(code: str, serial: str) -> None:
    """The standard of 2020 gives a 3-digit bank the digit of the older one."""
    weights = (3, 7, 3, 3, 7, 3, 3, 7, 3, 3, 7, 3)
    total = sum(int(d) * w for d, w in zip(code + serial, weights, strict=True))
    assert check_digit(institution_of(code), serial) == (10 - total % 10) % 10


@settings(deadline=None)
@given(st.lists(st.tuples(codes, serials, st.sampled_from(DIGITS)), max_size=20))
def test_column_formula_equals_the_scalar(cases: list[tuple[str, str, str]]) -> None:
    """The vectorised check gives what the scalar check gives, row by row."""
    institutions = [institution_of(code) for code, _, _ in cases]
    sums = np.array([institution_sum(name) for name in institutions], dtype=np.int64)
    accounts = np.array([int(serial + digit) for _, serial, digit in cases], dtype=np.int64)
    expected = [
        agrees(institution, serial + digit)
        for institution, (_, serial, digit) in zip(institutions, cases, strict=True)
    ]
    assert agreeing(sums, accounts).tolist() == expected


def test_no_check_never_agrees() -> None:
    """A row whose bank has no check digit is never said to agree."""
    assert agreeing(np.array([NO_CHECK]), np.array([0])).tolist() == [False]
