"""BVNs, and texts that must not be an identifier in disguise: customer ids, consent references.

Both stand in files that hold no identifiers. Digits are never invented: a BVN is never padded, and
letters are never read as digits. Accounts are judged in `banks`, phones in `phones`.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from nightscreen.schemas.columns import NAME_FIELDS, Flaw
from nightscreen.schemas.naming import PERSONAL, Form, forms_in
from nightscreen.schemas.rows import Action
from nightscreen.values.issues import (
    DigitsRule,
    Issue,
    Validated,
    bare_digits,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nightscreen.values.issues import Mask, Places

BVN_DIGITS: Final = 11
MASKED_REFERENCE: Final = "(masked: it held an identifier)"
SUSPECT_PATTERN: Final = r"^[^A-Za-z]{10,}$"
"""RE2 pattern of the ids that are looked at one by one: ten characters or more, no letter."""
_NUMBERS = ("bvn", "account_number", "phone")
_WORDS = (*NAME_FIELDS, "email")
_ENOUGH_DIGITS, _ENOUGH_LETTERS = 6, 4  # a choice: shorter ones are in references by chance
_NO_LETTERS = re.compile(r"[\W\d_]+")

_REFUSED = partial(Issue, action=Action.REFUSED)

_BVN = DigitsRule(
    *("bvn", "A BVN", BVN_DIGITS, Flaw.BVN),
    on_length="A BVN has exactly 11 digits; digits are never added, so correct it at source.",
)
ID_MISSING = _REFUSED(
    "customer_id_missing", "The row has no customer id; add one and feed it back."
)
ID_REPEATED = _REFUSED(
    "customer_id_repeated",
    "An earlier row of the file has the same customer id; keep one of them.",
)
ID_IS_BVN = _REFUSED(
    "customer_id_is_bvn",
    "The customer id is a BVN, which must not be used as a reference; use the lender's own number.",
)
ID_IS_ACCOUNT = _REFUSED(
    "customer_id_is_account",
    "The customer id is the account number, which must not be used as a reference; use the "
    "lender's own number.",
)
ID_IS_PHONE = _REFUSED(
    "customer_id_is_phone",
    "The customer id is a phone number, which must not be used as a reference; use the lender's "
    "own number.",
)


def judge_bvn(text: str) -> Validated[str]:
    """Judge a BVN that is present: 11 digits, repaired where nothing is ambiguous."""
    return _BVN.judge(text)


def judge_customer_id(
    text: str,
    *,
    bvn: str | None = None,
    bank_code: str | None = None,
    account: str | None = None,
    phone: str | None = None,
) -> Issue | None:
    """Return why a customer id is an identifier in disguise, or None where it is not.

    It is a BVN where it is the row's own or has the form of one; a phone where it is the row's own
    or has a Nigerian form; an account only where it is the row's own, alone or behind the bank's
    code, since one number in ten of a lender's own series of ten digits would agree with the check
    digit by chance. What the row itself has not is None.
    """
    digits = bare_digits(text)
    forms = frozenset() if any(c.isalpha() for c in digits) else forms_in(digits)
    if digits == bvn or Form.BVN in forms:
        return ID_IS_BVN
    if account and digits in {account, f"{bank_code}{account}"}:
        return ID_IS_ACCOUNT
    number = re.sub(r"[().]", "", digits)
    own_phone = phone is not None and phone in {number, f"+{number}", f"+234{number}"}
    return ID_IS_PHONE if own_phone or Form.PHONE in forms else None


def references(rows: pa.Table) -> pa.Array:
    """Return consent references for the journal; one that names a person is masked.

    A reference is kept in clear for the auditor, so it must carry no BVN, account, phone, email or
    name, however it is written.
    """
    found = []
    for row in rows.select(["consent_reference", *_NUMBERS, *_WORDS]).to_pylist():
        reference = row["consent_reference"]
        found.append(MASKED_REFERENCE if _names_somebody(reference or "", row) else reference)
    return pa.array(found, pa.string())


def _names_somebody(reference: str, row: Mapping[str, Any]) -> bool:
    """Return whether a reference holds an identifier, this row's or one that looks like one."""
    if forms_in(reference) & PERSONAL:
        return True
    digits = "".join(letter for letter in reference if letter.isdigit())
    numbers = ((row[name] or "").removeprefix("+234") for name in _NUMBERS)
    if any(len(number) >= _ENOUGH_DIGITS and number in digits for number in numbers):
        return True
    reference_words = set(_NO_LETTERS.split(reference.casefold()))
    words = (word for name in _WORDS for word in _NO_LETTERS.split((row[name] or "").casefold()))
    return any(len(word) >= _ENOUGH_LETTERS and word in reference_words for word in words)


class SeenIds:
    """The customer ids seen so far, by their 64-bit hashes.

    Two of a million share one with a chance of one in thirty million.
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def repeats(self, ids: Iterable[str]) -> Mask:
        """Return which of these ids were seen before, here or in an earlier call; keep them."""
        repeated = []
        for digest in map(hash, ids):
            repeated.append(digest in self._seen)
            self._seen.add(digest)
        return np.array(repeated, np.bool_)


class CustomerNumbers:
    """Numbers the customers of a file whose rows are merged, by 64-bit hashes as `SeenIds`.

    The file is read once to note its ids, then again: only then is it known whether any row of a
    customer has a usable identifier.
    """

    def __init__(self) -> None:
        self._usable: dict[int, bool] = {}
        self._numbers: dict[int, int] = {}
        self.settled = False

    def note(self, ids: Iterable[str], usable: Mask) -> None:
        """Take note of some rows' ids, and of which rows have a usable identifier."""
        for digest, sound in zip(map(hash, ids), usable.tolist(), strict=True):
            self._usable[digest] = sound or self._usable.get(digest, False)

    def settle(self) -> int:
        """Number the customers with an identifier in the order of their first rows."""
        wanted = (digest for digest, usable in self._usable.items() if usable)
        self._numbers = {digest: number for number, digest in enumerate(wanted)}
        self._usable, self.settled = {}, True
        return len(self._numbers)

    def numbers(self, ids: Iterable[str]) -> Places:
        """Return the number of each id's customer, -1 of those without a usable identifier."""
        return np.array([self._numbers.get(digest, -1) for digest in map(hash, ids)], np.int64)
