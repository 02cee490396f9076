"""The search itself: what it would find, so that its silence means something."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

from tests.privacy.search import Search

VALUES = ("22123456789", "+2348031234567", "ada+zqx@mail.example", "Zqxlast007-Ɗanjuma")


DRESSES = (
    *VALUES,
    *("2212 345 6789", "2212-345-6789", "0803 123 4567", "2348031234567", "8031234567"),
    quote("ada+zqx@mail.example", safe=""),
    "ADA+ZQX@MAIL.EXAMPLE",
    "Zqxlast007-Ɗanjuma".upper(),
    json.dumps("Zqxlast007-Ɗanjuma"),
    b"ada+zqx@mail.example".hex(),
)


def test_a_value_is_found_in_every_dress() -> None:
    """In the middle of other text, at any place, in base64 and UTF-16 whatever stands before it.

    Longer numbers and other words are not taken for values: an instant in microseconds is no
    account number.
    """
    search = Search(VALUES)
    for text in DRESSES:
        for lead in range(9):
            assert search.found_in(b"x" * lead + b"<" + text.encode() + b">"), (text, lead)
    for value in VALUES:
        for lead in range(5):
            text = "x" * lead + value + "yy"
            assert value in search.found_in(b"{" + base64.b64encode(text.encode()) + b"}")
            assert value in search.found_in(text.encode("utf-16-le"))
    assert not search.found_in(b"1722123456789012 ada@mail.example Danjuma 2212345678")
