"""Phone numbers: to +234 and ten digits, and the fast path beside the library's own reading."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightscreen.schemas.columns import Flaw
from nightscreen.values.columns import matching
from nightscreen.values.issues import Issues
from nightscreen.values.phones import judge_phone, judge_phones, plain_pattern
from tests.how_many import examples

PHONE = "+2348031234567"


@pytest.mark.parametrize(
    "cell",
    [
        "08031234567",
        "8031234567",
        "2348031234567",
        "+2348031234567",
        "002348031234567",
        "0803 123 4567",
        "0803-123-4567",
        "(0803) 123-4567",
        "+234 (0) 803 123 4567",
        "+234 803 123 4567",
    ],
)
def test_ways_of_writing_one_number_are_one_number(cell: str) -> None:
    """A phone is brought to +234 and ten digits, and nothing is said of it."""
    assert judge_phone(cell) == (PHONE, ())


@pytest.mark.parametrize(
    ("cell", "value", "code"),
    [
        ("'08031234567", PHONE, "phone_characters_removed"),
        ("8031234567.0", PHONE, "phone_characters_removed"),
        ("\u202a+2348031234567\u202c", PHONE, "phone_characters_removed"),
        ("08031234567 / 08051234567", PHONE, "phone_first_of_several"),
        ("08031234567,08051234567", PHONE, "phone_first_of_several"),
        ("08031234567 or 08051234567", PHONE, "phone_first_of_several"),
        ("08271234567", "+2348271234567", "phone_prefix"),
        ("08000000000", None, "phone_placeholder"),
        ("11111111111", None, "phone_placeholder"),
        ("9999999999", None, "phone_placeholder"),
    ],
)
def test_other_cells_have_their_finding(cell: str, value: str | None, code: str) -> None:
    """Repairs and doubts are said."""
    verdict = judge_phone(cell)
    assert (verdict.value, [f.code for f in verdict.issues]) == (value, [code])


@pytest.mark.parametrize(
    ("cell", "code"),
    [
        ("+447911123456", "phone_not_nigerian"),
        ("+1 202 555 0100", "phone_not_nigerian"),
        ("8.03E+09", "phone_scientific"),
        ("O8031234567", "phone_letters"),
        ("0803 CALL NOW", "phone_letters"),
        ("0803123456", "phone_malformed"),
        ("080312345678", "phone_malformed"),
        ("08031234567/8", "phone_malformed"),
        ("012345678", "phone_malformed"),
        ("+234", "phone_malformed"),
        ("+", "phone_malformed"),
    ],
)
def test_malformed_phones_are_invalid_and_keep_their_text(cell: str, code: str) -> None:
    """No digit and no country is guessed."""
    verdict = judge_phone(cell)
    assert (verdict.value, [f.code for f in verdict.issues]) == (cell, [code])
    assert verdict.issues[0].flaw is Flaw.PHONE


mobiles = st.from_regex(r"(\+?234|0)?[789][0-9]{9}", fullmatch=True)
near = st.from_regex(r"(\+?2340?|00?)?[0-9]{8,14}", fullmatch=True)
grouped = st.from_regex(
    r"\+?(234[ -]?|0[ -]?)?([789]|[0-9]{2,4})([ -]{0,2}[0-9]{1,4}){2,9}", fullmatch=True
)


@settings(max_examples=examples(400), deadline=None)
@given(
    st.lists(mobiles | near | grouped | st.text(min_size=1, max_size=20), min_size=1, max_size=20)
)
def test_fast_path_gives_the_librarys_answer(cells: list[str]) -> None:
    """A whole column by pattern equals each number read by the library."""
    notes = Issues.blank(range(len(cells)))
    judged = judge_phones(pa.array(cells, pa.string()), notes)
    verdicts = [judge_phone(cell) for cell in cells]
    assert judged.to_pylist() == [verdict.value for verdict in verdicts]
    found = [(row, f.code) for row, verdict in enumerate(verdicts) for f in verdict.issues]
    assert [(problem.line, problem.code) for problem in notes.problems] == found


def test_ordinary_numbers_take_the_fast_path() -> None:
    """The forms of nearly every file are recognised without the library."""
    forms = ["08031234567", "8031234567", "2347061234567", "+2349161234567"]
    assert matching(pa.array(forms), plain_pattern()).all()
