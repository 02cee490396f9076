"""Consent references as the journal stores them: in clear, so they must not identify anybody.

`consent` decides whether a consent is valid.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

_NUMBERS = ("bvn", "account_number", "phone")
_WORDS = ("first_name", "middle_name", "last_name", "full_name", "email")
_ENOUGH_DIGITS, _ENOUGH_LETTERS = 6, 4
_NO_LETTERS = re.compile(r"[\W\d_]+")
_SEPARATED = re.compile(r"(?<=\d)[ ./-]+(?=\d)")
_IDENTIFIER = re.compile(r"(?<!\d)(22\d{9}|0[789]\d{9}|(234)[789]\d{9})(?!\d)")
MASKED_REFERENCE = "(masked: it held an identifier)"


def references(rows: pa.Table) -> pa.Array:
    """Return consent references for the journal; one that names a person is masked.

    A reference is kept in clear for the auditor, so it must carry no BVN, account, phone, email or
    name, however it is written.
    """
    found = []
    for row in rows.select(["consent_reference", *_NUMBERS, *_WORDS]).to_pylist():
        reference = row["consent_reference"]
        found.append(MASKED_REFERENCE if _holds_identifier(reference or "", row) else reference)
    return pa.array(found, pa.string())


def _holds_identifier(reference: str, row: Mapping[str, Any]) -> bool:
    """Return whether a reference holds an identifier, this row's or one that looks like one."""
    digits = "".join(letter for letter in reference if letter.isdigit())
    bare = _SEPARATED.sub("", reference)
    if "@" in reference or _IDENTIFIER.search(bare):
        return True
    numbers = ((row[name] or "").removeprefix("+234") for name in _NUMBERS)
    if any(len(number) >= _ENOUGH_DIGITS and number in digits for number in numbers):
        return True
    reference_words = set(_NO_LETTERS.split(reference.casefold()))
    words = (word for name in _WORDS for word in _NO_LETTERS.split((row[name] or "").casefold()))
    return any(len(word) >= _ENOUGH_LETTERS and word in reference_words for word in words)
