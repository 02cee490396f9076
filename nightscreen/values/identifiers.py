"""Validate BVNs, and refuse customer ids and consent references that are identifiers.

Customer ids and consent references appear in files without identifiers. Digits are never invented:
a BVN is never padded, and letters are never read as digits.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.schemas.columns import NAME_FIELDS
from nightscreen.schemas.naming import PERSONAL, Form, forms_in
from nightscreen.values.issues import (
    ColumnRule,
    Validated,
    as_mask,
    at,
    bare_digits,
    issue,
    judge_digits,
    matching,
    present,
    sure_digits,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nightscreen.values.issues import Issue, Mask, Places

BVN_DIGITS: Final = 11
MASKED_REFERENCE: Final = "(masked: it held an identifier)"
SUSPECT_PATTERN: Final = r"^[^A-Za-z]{10,}$"
"""RE2 pattern of ids to check one by one: ten characters or more, no letter."""
_NUMBERS = ("bvn", "account_number", "phone")
_WORDS = (*NAME_FIELDS, "email")
_ENOUGH_DIGITS, _ENOUGH_LETTERS = 6, 4  # a choice: shorter ones may match by chance
_SHORT_WORDS = r"^(?:[A-Za-z]{0,3}[0-9 /._:#-])*[A-Za-z]{0,3}$"
_MOST_DIGITS = 9  # fewer than an identifier has
_FEW_DIGITS = f"^(?:[^0-9]*[0-9]){{0,{_MOST_DIGITS}}}[^0-9]*$"
"""RE2 patterns of references too short to hold a word or identifier that would matter."""
_NO_LETTERS = re.compile(r"[\W\d_]+")


def judge_bvn(text: str) -> Validated[str]:
    """Validate a BVN: 11 digits, repaired if nothing is ambiguous."""
    return judge_digits(text, "bvn", BVN_DIGITS)


BVN: Final = ColumnRule(judge_bvn, partial(sure_digits, length=BVN_DIGITS))


def judge_customer_id(
    text: str,
    *,
    bvn: str | None = None,
    bank_code: str | None = None,
    account: str | None = None,
    phone: str | None = None,
) -> Issue | None:
    """Return why a customer id is an identifier; None if it is not.

    It is a BVN if it is the row's BVN or looks like one; a phone if it is the row's phone or looks
    Nigerian; an account only if it is the row's account, alone or after the bank's code, because
    one in ten of a lender's own ten-digit numbers has a valid check digit by chance. Values that
    the row lacks are None.
    """
    digits = bare_digits(text)
    forms = frozenset() if any(c.isalpha() for c in digits) else forms_in(digits)
    if digits == bvn or Form.BVN in forms:
        return issue("customer_id_is_bvn")
    if account and digits in {account, f"{bank_code}{account}"}:
        return issue("customer_id_is_account")
    number = re.sub(r"[().]", "", digits)
    own_phone = phone is not None and phone in {number, f"+{number}", f"+234{number}"}
    return issue("customer_id_is_phone") if own_phone or Form.PHONE in forms else None


def references(rows: pa.Table) -> pa.Array:
    """Return consent references for the journal; one that names a person is masked.

    A reference is stored in plain text for the auditor, so it must hold no BVN, account, phone,
    email or name in any form.
    """
    column = rows["consent_reference"].combine_chunks()
    is_sure = matching(column, _SHORT_WORDS) & matching(column, _FEW_DIGITS)
    for name in _NUMBERS:
        digits = pc.utf8_length(pc.replace_substring(rows[name].combine_chunks(), "+234", ""))
        is_sure &= as_mask(pc.greater(digits.fill_null(BVN_DIGITS), _MOST_DIGITS))
    doubtful = np.flatnonzero(~is_sure & present(column))
    names = ("consent_reference", *_NUMBERS, *_WORDS)
    owners = zip(*(at(rows[name], doubtful) for name in names), strict=True)
    masked = np.zeros(len(column), np.bool_)
    masked[doubtful] = [_names_a_person(*owner) for owner in owners]
    return pc.if_else(pa.array(masked), MASKED_REFERENCE, column)


def _names_a_person(reference: str, *own: str | None) -> bool:
    """Return whether a reference holds an identifier or name of the row, or looks like one.

    `own` are the row's `_NUMBERS`, then its `_WORDS`.
    """
    if forms_in(reference) & PERSONAL:
        return True
    digits = "".join(filter(str.isdigit, reference))
    numbers = ((text or "").removeprefix("+234") for text in own[: len(_NUMBERS)])
    if any(len(number) >= _ENOUGH_DIGITS and number in digits for number in numbers):
        return True
    reference_words = set(_NO_LETTERS.split(reference.casefold()))
    texts = (text.casefold() for text in own[len(_NUMBERS) :] if text)
    words = (word for text in texts for word in _NO_LETTERS.split(text))
    return any(len(word) >= _ENOUGH_LETTERS and word in reference_words for word in words)


def repeated(ids: Iterable[str], seen: set[int]) -> Mask:
    """Return which of these ids were seen before, here or in an earlier call; add their hashes.

    The chance that any two of a million ids share a 64-bit hash is one in thirty million.
    """
    found = []
    for digest in map(hash, ids):
        found.append(digest in seen)
        seen.add(digest)
    return np.array(found, np.bool_)


class CustomerNumbers:
    """Numbers the customers of a file whose rows are merged, by 64-bit hashes as in `repeated`.

    The file is read twice: the first time shows whether any row of a customer has a usable
    identifier.
    """

    def __init__(self) -> None:
        self._usable: dict[int, bool] = {}
        self._numbers: dict[int, int] = {}
        self.settled = False

    def note(self, ids: Iterable[str], usable: Mask) -> None:
        """Add some rows' ids, and whether each row has a usable identifier."""
        for digest, is_usable in zip(map(hash, ids), usable.tolist(), strict=True):
            self._usable[digest] = is_usable or self._usable.get(digest, False)

    def settle(self) -> int:
        """Number the customers with a usable identifier in the order of their first rows."""
        customers = (digest for digest, usable in self._usable.items() if usable)
        self._numbers = {digest: number for number, digest in enumerate(customers)}
        self._usable, self.settled = {}, True
        return len(self._numbers)

    def numbers(self, ids: Iterable[str]) -> Places:
        """Return the number of each id's customer; -1 without a usable identifier."""
        return np.array([self._numbers.get(digest, -1) for digest in map(hash, ids)], np.int64)
