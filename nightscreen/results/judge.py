"""Judge: what an answer means for one row. Pure, one row at a time.

The service says who owns an account or a history; whether that is this customer is decided here.
Decisions about the customer belong to `decide`.
"""

from __future__ import annotations

from decimal import Decimal
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from nightscreen.schemas.rows import Flaw
from nightscreen.values.names import AGREES, CONTRADICTS, NameMatch, match_names

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date
    from typing import Any

    from nightscreen.schemas.answers import BankAccountAnswer, EcosystemRecord, SelfieAnswer

BVN_DIGITS = 11
_SHOWN_FIRST = 2
_SHOWN_LAST = 2
_MASKED = "0" * (BVN_DIGITS - _SHOWN_FIRST - _SHOWN_LAST)
NAME_FIELDS = ("first_name", "middle_name", "last_name", "full_name")
_names = itemgetter(*NAME_FIELDS)
_BAD_BVN = int(Flaw.BVN)


class AccountVerdict(NamedTuple):
    """A bank account held against a row: status, and what it rests on."""

    status: str
    account_name: str | None = None
    bvn_match: bool | None = None
    name: NameMatch | None = None


def bvn_agrees(ours: str | None, theirs: str | None) -> bool | None:
    """Compare two BVNs on the digits the service shows; None where there is nothing to compare.

    The service masks the middle seven digits with zeros; other masks are reported by their marks.
    """
    if not ours or not theirs or len(ours) != BVN_DIGITS or len(theirs) != BVN_DIGITS:
        return None
    if theirs[_SHOWN_FIRST:-_SHOWN_LAST] == _MASKED:
        return ours[:_SHOWN_FIRST] == theirs[:_SHOWN_FIRST] and ours.endswith(theirs[-_SHOWN_LAST:])
    shown = [place for place, digit in enumerate(theirs) if digit.isdigit()]
    if not shown:
        return None
    return all(ours[place] == theirs[place] for place in shown)


def judge_account(row: Mapping[str, Any], answer: BankAccountAnswer | None) -> AccountVerdict:
    """Return whether an account is this customer's.

    `verified` where BVN or name agrees and neither contradicts, `mismatch` where one contradicts,
    `unconfirmed` where it exists and there is nothing to compare, or only a name that is likely the
    same (a relative's may be), `not_found` where it does not exist.
    """
    if answer is None:
        return AccountVerdict("not_found")
    ours = None if row["flaws"] & _BAD_BVN else row["bvn"]
    bvn = bvn_agrees(ours, answer.bvn)
    name = match_names(_names(row), answer.account_name)
    grade = None if name is None else name.grade
    if bvn is False or grade in CONTRADICTS:
        status = "mismatch"
    elif bvn or grade in AGREES:
        status = "verified"
    else:
        status = "unconfirmed"
    return AccountVerdict(status, answer.account_name, bvn, name)


def dob_agrees(ours: date | None, theirs: date | None) -> bool | None:
    """Compare two dates of birth; None where one is missing."""
    return None if ours is None or theirs is None else ours == theirs


def history_name(row: Mapping[str, Any], record: EcosystemRecord) -> NameMatch | None:
    """Compare a row's names with those of a history."""
    theirs = " ".join(part for part in (record.first_name, record.last_name) if part)
    return match_names(_names(row), theirs or None)


def judge_selfie(answer: SelfieAnswer | None, *, match_at: float, no_match_below: float) -> str:
    """Return `match`, `no_match` or, between the lender's two thresholds, `unsure`.

    The service only scores; the threshold is the caller's (specification, area B, rule 2).
    """
    if answer is None:
        return "no_match"
    if answer.similarity is None:
        return "unsure" if answer.match is None else "match" if answer.match else "no_match"
    if answer.similarity >= _as_written(match_at):
        return "match"
    return "no_match" if answer.similarity < _as_written(no_match_below) else "unsure"


def _as_written(threshold: float) -> Decimal:
    """Return a threshold as the lender wrote it: 91.86, not the binary fraction next to it."""
    return Decimal(str(threshold))
