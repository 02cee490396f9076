"""The search itself: what it would find, so that its silence means something."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest

from tests.privacy.search import Search

VALUES = ("22123456789", "+2348031234567", "ada+zqx@mail.example", "Zqxlast007-Ɗanjuma")


@pytest.mark.parametrize(
    "text",
    [
        *VALUES,
        "2212 345 6789",
        "2212-345-6789",
        "0803 123 4567",
        "2348031234567",
        "8031234567",
        quote("ada+zqx@mail.example", safe=""),
        "ADA+ZQX@MAIL.EXAMPLE",
        "Zqxlast007-Ɗanjuma".upper(),
        json.dumps("Zqxlast007-Ɗanjuma"),
        b"ada+zqx@mail.example".hex(),
    ],
)
def test_a_value_is_found_in_every_dress(text: str) -> None:
    """In the middle of other text, at any place."""
    search = Search(VALUES)
    for lead in range(9):
        assert search.found_in(b"x" * lead + b"<" + text.encode() + b">"), lead


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("lead", range(5))
def test_a_value_is_found_in_base64_and_utf_16(value: str, lead: int) -> None:
    """Whatever stands before it."""
    search = Search(VALUES)
    text = "x" * lead + value + "yy"
    assert value in search.found_in(b"{" + base64.b64encode(text.encode()) + b"}")
    assert value in search.found_in(text.encode("utf-16-le"))


def test_longer_numbers_and_other_words_are_not_taken_for_values() -> None:
    """An instant in microseconds is no account number."""
    assert not Search(VALUES).found_in(b"1722123456789012 ada@mail.example Danjuma 2212345678")
