"""BVNs: what is repaired, what is beyond repair, what counts as absent."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightscreen.schemas.columns import Flaw
from nightscreen.values.identifiers import judge_bvn

BVN = "22123456789"


@pytest.mark.parametrize(
    "cell",
    [
        "'22123456789",
        "22 123 456 789",
        "2212-345-6789",
        "221\u200b23456789",
        "\ufeff22123456789",
        "22123456789.0",
        "22123456789.00",
        '="22123456789"',
        "22,123,456,789",
        "22,123,456,789.00",
        "\uff12\uff12\uff11\uff12\uff13\uff14\uff15\uff16\uff17\uff18\uff19",
    ],
)
def test_marks_round_complete_digits_are_repaired(cell: str) -> None:
    """Nothing is ambiguous where all eleven digits are there."""
    verdict = judge_bvn(cell)
    assert (verdict.value, [f.code for f in verdict.issues]) == (BVN, ["bvn_characters_removed"])


@pytest.mark.parametrize(
    ("cell", "code"),
    [
        ("2212345678", "bvn_length"),
        ("221234567890", "bvn_length"),
        ("2212345678.0", "bvn_length"),
        ("2.21E+10", "bvn_scientific"),
        ("2.2123456789E+10", "bvn_scientific"),
        ("2.21e10", "bvn_scientific"),
        ("2212345678O", "bvn_letters"),
        ("I2123456789", "bvn_letters"),
        ("2212345678\u0663", "bvn_characters"),
        ("22123456789.5", "bvn_characters"),
        ("22123456789/22123456780", "bvn_characters"),
    ],
)
def test_what_is_not_eleven_digits_is_invalid_and_keeps_its_text(cell: str, code: str) -> None:
    """A BVN is never padded, shortened or guessed."""
    verdict = judge_bvn(cell)
    assert (verdict.value, [f.code for f in verdict.issues]) == (cell, [code])
    assert verdict.issues[0].flaw is Flaw.BVN


def test_a_destroyed_bvn_says_how_to_export_it() -> None:
    """Scientific notation is beyond repair, and the hint says what to do."""
    (finding,) = judge_bvn("2.21E+10").issues
    assert "spreadsheet" in finding.hint
    assert "text" in finding.hint


@pytest.mark.parametrize(
    ("cell", "codes"),
    [("11111111111", ["bvn_placeholder"]), ("'00000000000", []), ("000-000", [])],
)
def test_filled_in_fields_are_absent(cell: str, codes: list[str]) -> None:
    """Zeros and one digit repeated are no BVN and no malformed one either."""
    verdict = judge_bvn(cell)
    assert (verdict.value, [f.code for f in verdict.issues]) == (None, codes)


@settings(deadline=None)
@given(st.text(min_size=1, max_size=30))
def test_a_value_without_flaw_is_eleven_digits(cell: str) -> None:
    """Whatever the cell holds: sound and eleven digits, absent, or flawed with its own text."""
    verdict = judge_bvn(cell)
    if any(finding.flaw for finding in verdict.issues):
        assert verdict.value == cell
    elif verdict.value is not None:
        assert len(verdict.value) == len(BVN)
        assert verdict.value.isascii()
        assert verdict.value.isdigit()
