"""Amounts of naira: what is read, what is left unread, and never through a float."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightscreen.schemas.rows import NAIRA
from nightscreen.values.amounts import judge_amount, judge_amounts
from nightscreen.values.issues import Issues
from tests.how_many import examples


@pytest.mark.parametrize(
    ("cell", "naira"),
    [
        ("1250000", "1250000.00"),
        ("\u20a61,250,000.00", "1250000.00"),
        ("NGN 1,250,000", "1250000.00"),
        ("ngn1250000.5", "1250000.50"),
        ("N1,250", "1250.00"),
        ("1,250,000.00 NGN", "1250000.00"),
        ("5000 naira", "5000.00"),
        ("=N=5,000", "5000.00"),
        ("1 250 000.00", "1250000.00"),
        ("1\u00a0250\u00a0000", "1250000.00"),
        ("+500", "500.00"),
        ("0", "0.00"),
        ("0.00", "0.00"),
        ("-0.00", "0.00"),
        (".5", "0.50"),
        ("5.", "5.00"),
        ("1250.500", "1250.50"),
        ("0.1", "0.10"),
        ("999999999999999999.99", "999999999999999999.99"),
    ],
)
def test_amounts_people_write_are_read_exactly(cell: str, naira: str) -> None:
    """Currency signs, thousands and kobo; zero is an amount."""
    assert judge_amount(cell) == (Decimal(naira), ())


@pytest.mark.parametrize(
    ("cell", "naira", "code"),
    [
        ("1250000.505", "1250000.51", "exposure_rounded"),
        ("0.125", "0.13", "exposure_rounded"),
        ("1.250.000,00", None, "exposure_ambiguous"),
        ("1250,00", None, "exposure_ambiguous"),
        ("1,25,000", None, "exposure_ambiguous"),
        ("(500)", None, "exposure_negative"),
        ("-500", None, "exposure_negative"),
        ("\u20a6-1,000.00", None, "exposure_negative"),
        ("1.25E+06", None, "exposure_scientific"),
        ("1000000000000000000", None, "exposure_too_large"),
        ("9" * 60, None, "exposure_unreadable"),
        ("1.2m", None, "exposure_unreadable"),
        ("USD 500", None, "exposure_unreadable"),
    ],
)
def test_doubtful_amounts_are_unknown_and_said(cell: str, naira: str | None, code: str) -> None:
    """What could be read in two ways is not read; more than two places are rounded half up."""
    verdict = judge_amount(cell)
    expected = Decimal(naira) if naira else None
    assert (verdict.value, [f.code for f in verdict.issues]) == (expected, [code])


def test_a_currency_without_an_amount_is_absent() -> None:
    """An accounting format shows nothing as a dash behind the currency."""
    assert judge_amount("\u20a6 -") == (None, ())


amounts = st.from_regex(r"[0-9]{1,19}(\.[0-9]{0,4})?", fullmatch=True)
marked = st.from_regex(r"[(-]?(N|NGN|\u20a6)? ?[0-9]{1,3}(,[0-9]{2,3}){0,3}\)?", fullmatch=True)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(amounts | marked | st.text(min_size=1, max_size=45), max_size=20))
def test_column_equals_its_cells(cells: list[str]) -> None:
    """A column has what the scalar rule gives, in its own type."""
    notes = Issues.blank(range(len(cells)))
    judged = judge_amounts(pa.array(cells, pa.string()), notes)
    verdicts = [judge_amount(cell) for cell in cells]
    assert judged.type == NAIRA
    assert judged.to_pylist() == [verdict.value for verdict in verdicts]
    found = [(row, f.code) for row, verdict in enumerate(verdicts) for f in verdict.issues]
    assert [(problem.line, problem.code) for problem in notes.problems] == found
