"""Finds marked values in bytes, in whatever dress they may have got there.

A value may stand in clear, in other case, percent-encoded, escaped, in base64, in hexadecimal or
in UTF-16; digits may be parted by blanks, hyphens or slashes. Which values are sought and where
belongs to the tests.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

import numpy as np

SHORTEST = 8
_DIGITS = re.compile(rb"(?<![0-9])[0-9](?:[0-9]|[ \-./_()](?=[0-9])){7,60}")
_PARTING = b" -./_()"


class Search:
    """Looks for values in every dress.

    Args:
        values: what must not be found; each of 8 letters or more.
    """

    def __init__(self, values: Iterable[str]) -> None:
        self._meant: dict[bytes, str] = {}
        self._digits: set[bytes] = set()
        for value in values:
            if len(value) < SHORTEST:
                raise ValueError(f"too short to be sought: {value}")
            if value.removeprefix("+").isdigit():
                self._digits |= {form.encode() for form in _digit_forms(value)}
            for dress in _dresses(value):
                self._meant[dress] = value
        starts = {dress[:SHORTEST] for dress in self._meant}
        self._starts = np.array(sorted(_word(start) for start in starts), dtype=np.uint64)

    def found_in(self, content: bytes) -> set[str]:
        found = set(self._in_any_dress(content))
        lower = content.lower()
        if lower != content:
            found |= set(self._in_any_dress(lower))
        return found | set(self._among_digits(content))

    def _in_any_dress(self, content: bytes) -> Iterator[str]:
        for shift in range(SHORTEST):
            count = (len(content) - shift) // SHORTEST
            if count <= 0:
                return
            words = np.frombuffer(content, dtype="<u8", count=count, offset=shift)
            for at in np.flatnonzero(np.isin(words, self._starts)):
                yield from self._at(content, shift + int(at) * SHORTEST)

    def _at(self, content: bytes, place: int) -> Iterator[str]:
        for dress, value in self._meant.items():
            if content.startswith(dress, place) and _stands_alone(content, place, dress):
                yield value

    def _among_digits(self, content: bytes) -> Iterator[str]:
        for run in _DIGITS.findall(content):
            if run.translate(None, _PARTING) in self._digits:
                yield run.decode()


def _word(start: bytes) -> int:
    return int.from_bytes(start, "little")


def _stands_alone(content: bytes, place: int, dress: bytes) -> bool:
    """Return whether digits are a number by themselves, not a piece of a longer one."""
    if not dress.isdigit():
        return True
    before, after = content[place - 1 : place], content[place + len(dress) :][:1]
    return not before.isdigit() and not after.isdigit()


def _digit_forms(value: str) -> set[str]:
    """Return a number as it is, and a phone number in its three forms."""
    if not value.startswith("+234"):
        return {value}
    bare = value.removeprefix("+234")
    return {f"234{bare}", f"0{bare}", bare}


def _dresses(value: str) -> set[bytes]:
    texts = {value, value.casefold(), value.lower(), value.upper()}
    texts |= _digit_forms(value)
    texts |= {form for text in list(texts) for form in (quote(text, safe=""), quote_plus(text))}
    texts |= {json.dumps(text)[1:-1] for text in list(texts)}
    dresses = {text.encode() for text in texts}
    for text in (value, value.lower(), value.upper()):
        dresses |= set(_encoded(text))
    return {dress for dress in dresses if len(dress) >= SHORTEST}


def _encoded(text: str) -> Iterator[bytes]:
    data = text.encode()
    yield text.encode("utf-16-le")
    yield text.encode("utf-16-be")
    yield data.hex().encode()
    for lead in range(3):
        yield from _in_base64(b"\0" * lead + data, lead)


def _in_base64(data: bytes, lead: int) -> Iterator[bytes]:
    """Yield the part of the base64 text that depends on nothing but the value."""
    first = -(-lead * 8 // 6)
    last = len(data) * 8 // 6
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(data)[first:last]
