"""Customer ids: seen only once in a file, and never an identifier of the person in disguise.

An id goes into files that hold no identifiers, so an id that is a BVN, an account or a phone
number refuses its row. Other modules validate BVNs, accounts and phones.
"""

from __future__ import annotations

import re
from string import ascii_letters
from typing import TYPE_CHECKING

import numpy as np

from nightscreen.files.arrow_bytes import Edges, table_of
from nightscreen.schemas.rows import Action
from nightscreen.values.validators import Finding, bare_digits

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from nightscreen.values.columns import Column, Mask


ID_MISSING = Finding(
    "customer_id_missing", "The row has no customer id; add one and feed it back.", Action.REFUSED
)
ID_REPEATED = Finding(
    "customer_id_repeated",
    "An earlier row of the file has the same customer id; keep one of them.",
    Action.REFUSED,
)
ID_IS_BVN = Finding(
    "customer_id_is_bvn",
    "The customer id is a BVN, which must not be used as a reference; use the lender's own number.",
    Action.REFUSED,
)
ID_IS_ACCOUNT = Finding(
    "customer_id_is_account",
    "The customer id is the account number, which must not be used as a reference; use the "
    "lender's own number.",
    Action.REFUSED,
)
ID_IS_PHONE = Finding(
    "customer_id_is_phone",
    "The customer id is a phone number, which must not be used as a reference; use the lender's "
    "own number.",
    Action.REFUSED,
)

SUSPECT_PATTERN = r"^[^A-Za-z]{10,}$"
"""RE2 pattern of the ids that are looked at one by one: ten characters or more, no letter."""

_LEAST_SUSPECT = 10
_LETTERS = table_of(ascii_letters)
_BVN_FORM = re.compile(r"22[0-9]{9}")
_PHONE_FORM = re.compile(r"(?:0|\+?(?:00)?234)0?[789][01][0-9]{8}")
_ROUND_PHONES = re.compile(r"[().]")


def suspects(ids: Column) -> Mask:
    """Return which ids can match `SUSPECT_PATTERN`: long enough, and no letter in front."""
    edges = Edges.of(ids)
    found: Mask = (edges.lengths >= _LEAST_SUSPECT) & (_LETTERS[edges.first] == 0)
    return found


def judge_customer_id(
    text: str, *, bvn: str | None, bank_code: str | None, account: str | None, phone: str | None
) -> Finding | None:
    """Return why a customer id is an identifier in disguise, or None where it is not.

    It is a BVN where it is the row's own or has eleven digits beginning with 22; a phone where it
    is the row's own or has a Nigerian form with 0 or 234 in front; an account only where it is
    the row's own, alone or behind the bank's code, since one number in ten of a lender's own
    series of ten digits would agree with the check digit by chance.
    """
    digits = bare_digits(text)
    if digits == bvn or _BVN_FORM.fullmatch(digits):
        return ID_IS_BVN
    if account and digits in {account, f"{bank_code}{account}"}:
        return ID_IS_ACCOUNT
    number = _ROUND_PHONES.sub("", digits)
    own_phone = phone is not None and phone in {number, f"+{number}", f"+234{number}"}
    return ID_IS_PHONE if own_phone or _PHONE_FORM.fullmatch(number) else None


class SeenIds:
    """The customer ids seen so far: sorted runs of 64-bit digests, eight bytes an id.

    The digests are Python's own hashes of a text, keyed differently in each process and never
    stored. Two ids of a million share a digest with a chance of one in thirty million.
    """

    def __init__(self) -> None:
        self._runs: list[npt.NDArray[np.uint64]] = []

    def repeats(self, ids: Iterable[str]) -> Mask:
        """Return which of these ids were seen before, here or in an earlier call; keep them."""
        digests = np.fromiter(map(hash, ids), np.int64).view(np.uint64)
        distinct, first = np.unique(digests, return_index=True)
        repeated = np.ones(len(digests), dtype=np.bool_)
        repeated[first] = False
        for run in self._runs:
            indices = np.minimum(np.searchsorted(run, digests), len(run) - 1)
            repeated |= run[indices] == digests
        self._keep(distinct)
        return repeated

    def _keep(self, run: npt.NDArray[np.uint64]) -> None:
        """Add a sorted run, merging it with those that are no longer than itself."""
        while self._runs and len(self._runs[-1]) <= 2 * len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]), kind="stable")
        if len(run):
            self._runs.append(run)


class CustomerNumbers:
    """Numbers the customers of a file whose rows are merged, by 64-bit digests as `SeenIds`.

    The file is read once to note its ids, then again: only then is it known whether any row of a
    customer has a usable identifier.
    """

    def __init__(self) -> None:
        self._noted: list[npt.NDArray[np.int64]] = []
        self._usable: list[Mask] = []
        self._digests = np.zeros(0, np.int64)
        self._numbers = np.zeros(0, np.int64)
        self.settled = False

    def note(self, ids: Iterable[str], usable: Mask) -> None:
        """Take note of some rows' ids, and of which rows have a usable identifier."""
        self._noted.append(np.fromiter(map(hash, ids), np.int64))
        self._usable.append(usable)

    def settle(self) -> int:
        """Number the customers with an identifier in the order of their first rows."""
        noted = np.concatenate([*self._noted, np.zeros(0, np.int64)])
        usable = np.concatenate([*self._usable, np.zeros(0, bool)])
        self._noted, self._usable, self.settled = [], [], True
        wanted = np.isin(noted, np.unique(noted[usable]))
        self._digests, first = np.unique(noted[wanted], return_index=True)
        self._numbers = np.empty(len(first), np.int64)
        self._numbers[np.argsort(first, kind="stable")] = np.arange(len(first))
        return len(first)

    def numbers(self, ids: Iterable[str]) -> npt.NDArray[np.int64]:
        """Return the number of each id's customer, -1 of those without a usable identifier."""
        digests = np.fromiter(map(hash, ids), np.int64)
        if not len(self._digests):
            return np.full(len(digests), -1, np.int64)
        indices = np.minimum(np.searchsorted(self._digests, digests), len(self._digests) - 1)
        known = self._digests[indices] == digests
        return np.where(known, self._numbers[indices], -1)
