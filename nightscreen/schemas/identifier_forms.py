"""What in a text looks like somebody's identifier: the one detector of names, ids and references.

Names of files and batches, customer ids, consent references and free text stand where nobody's
identifier may. Each of them says which forms it does not bear.
"""

from __future__ import annotations

import re
from enum import StrEnum


class Form(StrEnum):
    """The form of an identifier."""

    EMAIL = "email"
    BVN = "bvn"
    PHONE = "phone"
    NUMBER = "number"
    """Ten digits or more of no form of their own: an account, or a number of the lender's."""


PERSONAL = frozenset({Form.EMAIL, Form.BVN, Form.PHONE})
"""Forms that only identifiers have; a lender's own numbers may have ten digits too."""
_BETWEEN_DIGITS = re.compile(r"(?<=[0-9])[-_. ()/]+(?=[0-9])")
_NUMBER = re.compile(r"(?<![0-9])[0-9]{10,}(?![0-9])")
_BVN = re.compile(r"22[0-9]{9}")
_PHONE = re.compile(r"(?:0|(?:00)?234)0?[789][01][0-9]{8}")


def forms_in(text: str) -> frozenset[Form]:
    """Return which forms of identifiers a text holds, however their digits are grouped."""
    found = {Form.EMAIL} if "@" in text else set()
    for number in _NUMBER.findall(_BETWEEN_DIGITS.sub("", text)):
        if _BVN.fullmatch(number):
            found.add(Form.BVN)
        else:
            found.add(Form.PHONE if _PHONE.fullmatch(number) else Form.NUMBER)
    return frozenset(found)
