"""Names of batches and runs, and the detector of identifiers in text.

Names of files and batches, customer ids, consent references and free text are shown widely, so they
must not hold a person's identifier. Each caller decides which forms it refuses.
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
_IDENTIFIER = re.compile(r"\S*@\S*|\+?\d(?:[-_. ()/]*\d){9,}")
"""Text that `forms_in` detects, to be removed from a name."""


def batch_name(path: Path) -> str:
    """Return a file's stem without a date, so that each night's file belongs to the same batch.

    What looks like a person's number or address is removed too: the name is shown everywhere.
    """
    stem = path.name if "@" in path.name else path.name.split(".")[0]
    bare = _DATE_IN_NAME.sub("-", stem).strip("-_ ")
    if contains_identifier(path.name):
        return _IDENTIFIER.sub("-", bare).strip("-_. ") or "batch"
    return bare or path.stem


def contains_identifier(name: str) -> bool:
    """Return whether a file's name seems to hold a customer's number or an email address."""
    return bool(forms_in(_DATE_IN_NAME.sub("-", name)))


def new_run_id(at: datetime, salt: str) -> str:
    """Return an id that sorts by time and holds no personal data."""
    return f"{at:%Y%m%d-%H%M%S}-{salt}"


def refuse_identifiers(batch: str) -> str:
    """Refuse a batch name that holds an identifier: engine, journal and reports store it."""
    if contains_identifier(batch):
        raise ValueError(
            "holds what looks like a customer's number or email address, and is shown everywhere: "
            "name the list, such as portfolio"
        )
    return batch


def refuse_named_after_somebody(path: str) -> str:
    """Refuse a file whose name holds an identifier: engine, journal and manifests store it."""
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
    """Ten digits or more of no other form: an account, or one of the lender's own numbers."""


PERSONAL = frozenset({Form.EMAIL, Form.BVN, Form.PHONE})
"""Forms that surely are identifiers; a lender's own numbers may have ten digits too."""
_BETWEEN_DIGITS = re.compile(r"(?<=[0-9])[-_. ()/]+(?=[0-9])")
_NUMBER = re.compile(r"(?<![0-9])[0-9]{10,}(?![0-9])")
_BVN = re.compile(r"22[0-9]{9}")
_PHONE = re.compile(r"(?:0|(?:00)?234)0?[789][01][0-9]{8}")


def forms_in(text: str) -> frozenset[Form]:
    """Return the forms of identifiers in a text, however their digits are grouped."""
    forms = {Form.EMAIL} if "@" in text else set()
    for number in _NUMBER.findall(_BETWEEN_DIGITS.sub("", text)):
        if _BVN.fullmatch(number):
            forms.add(Form.BVN)
        else:
            forms.add(Form.PHONE if _PHONE.fullmatch(number) else Form.NUMBER)
    return frozenset(forms)
