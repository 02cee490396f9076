"""Names of batches and runs, which are shown everywhere and so must say nothing of any person.

The one detector of what looks like somebody's identifier is here too: names of files and batches,
customer ids, consent references and free text stand where nobody's identifier may. Each of them
says which forms it does not bear.
"""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

_DATE_IN_NAME = re.compile(
    r"[-_. ]*(?<!\d)(?:19|20)\d\d[-_.]?(?:0[1-9]|1[0-2])[-_.]?(?:0[1-9]|[12]\d|3[01])"
    r"(?:[-_.T ]?\d{4,6})?(?!\d)[-_. ]*"
)
_SOMEBODY = re.compile(r"\S*@\S*|\+?\d(?:[-_. ()/]*\d){9,}")
"""What `forms_in` finds, to be left out of a name."""


def batch_name(path: Path) -> str:
    """Return a file's stem without a date, so that each night's file belongs to one batch.

    What looks like somebody's number or address is left out too: the name is shown everywhere.
    """
    stem = path.name if "@" in path.name else path.name.split(".")[0]
    bare = _DATE_IN_NAME.sub("-", stem).strip("-_ ")
    if contains_identifier(path.name):
        return _SOMEBODY.sub("-", bare).strip("-_. ") or "batch"
    return bare or path.stem


def contains_identifier(name: str) -> bool:
    """Return whether a file's name seems to hold a customer's number or an email address."""
    return bool(forms_in(_DATE_IN_NAME.sub("-", name)))


def new_run_id(at: datetime, salt: str) -> str:
    """Return an id that sorts by time and says nothing of any person."""
    return f"{at:%Y%m%d-%H%M%S}-{salt}"


def refuse_identifiers(batch: str) -> str:
    """Refuse a batch name that the engine, the journal and reports must not keep."""
    if contains_identifier(batch):
        raise ValueError(
            "holds what looks like a customer's number or email address, and is shown everywhere: "
            "name the list, such as portfolio"
        )
    return batch


def refuse_named_after_somebody(path: str) -> str:
    """Refuse a file whose name the engine, the journal and manifests must not keep."""
    if contains_identifier(Path(path).name):
        raise ValueError(
            "the file's name holds what looks like a customer's number or email address, and is "
            "shown everywhere: rename the file, for example portfolio.csv"
        )
    return path


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
