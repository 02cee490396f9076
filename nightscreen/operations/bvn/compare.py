"""A BVN record compared with the lender's data: name, date of birth and phone, each explained.

An explanation is for the analyst and only in the BVN output: it quotes what was compared.
A record may be incomplete (specification, BVN details): a missing field counts against nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nightscreen.values.names import match_names

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from nightscreen.schemas.answers import BvnAccount, BvnDetails
    from nightscreen.schemas.bvn import HeldCustomer
    from nightscreen.values.names import NameMatch

_NATIONAL_DIGITS = 10
_BEST_FIRST = ("strong", "likely", "weak", "none", "business")
_NOT_IN_ACCOUNTS = "the answer is a list of accounts, which has none"
_NOT_IN_RECORD = "the BVN record has none"
_NOT_HELD = "we hold none"


@dataclass(frozen=True, slots=True)
class BvnComparison:
    """The result: a grade or a truth for each, None if one side is missing, and why."""

    name: str | None
    name_explained: str
    dob: bool | None
    dob_explained: str
    phone: bool | None
    phone_explained: str


def compare(held: HeldCustomer, answer: BvnDetails) -> BvnComparison:
    """Compare a customer with a BVN answer: with the details where it has any."""
    if answer.only_accounts():
        name, explained = _best_account(held, answer.accounts)
        return BvnComparison(name, explained, None, _NOT_IN_ACCOUNTS, None, _NOT_IN_ACCOUNTS)
    parts = (answer.first_name, answer.middle_name, answer.last_name)
    record_name = " ".join(part for part in parts if part)
    name, explained = _name_result(match_names(held.names, record_name or None), record_name)
    dob, dob_explained = _dates(held.date_of_birth, answer.dob)
    phone, phone_explained = _phones(held.phone, answer.mobile)
    return BvnComparison(name, explained, dob, dob_explained, phone, phone_explained)


def _name_result(match: NameMatch | None, record_name: str) -> tuple[str | None, str]:
    if match is None:
        return None, _NOT_HELD if record_name else _NOT_IN_RECORD
    return match.grade, match.explained


def _best_account(held: HeldCustomer, accounts: Sequence[BvnAccount]) -> tuple[str | None, str]:
    """Return how well the best of the accounts' names agrees."""
    matches = [match_names(held.names, account.account_name) for account in accounts]
    known = [match for match in matches if match is not None]
    if not known:
        return None, "nothing to compare on one side"
    best = min(known, key=lambda match: _BEST_FIRST.index(match.grade))
    return best.grade, f"best of {len(accounts)}: {best.explained}"


def _dates(ours: date | None, theirs: date | None) -> tuple[bool | None, str]:
    if theirs is None:
        return None, _NOT_IN_RECORD
    if ours is None:
        return None, _NOT_HELD
    if ours == theirs:
        return True, f"agree: {theirs}"
    hint = ""
    if (ours.year, ours.month, ours.day) == (theirs.year, theirs.day, theirs.month):
        hint = "; day and month changed places"
    elif (ours.month, ours.day) == (theirs.month, theirs.day):
        hint = "; only the year differs"
    return False, f"against: {ours} / {theirs}{hint}"


def _phones(ours: str | None, theirs: str | None) -> tuple[bool | None, str]:
    """Compare the last ten digits; digits the service masks agree with anything."""
    own, others = _national(ours), _national(theirs)
    if not others:
        return None, _NOT_IN_RECORD
    if not own:
        return None, _NOT_HELD
    if len(own) < _NATIONAL_DIGITS or len(others) < _NATIONAL_DIGITS:
        return None, "one of the two is no whole phone number"
    shown = [(one, other) for one, other in zip(own, others, strict=True) if other != "*"]
    if not shown:
        return None, "the BVN record shows no digit"
    if all(one == other for one, other in shown):
        covered = "" if len(shown) == _NATIONAL_DIGITS else f" on the {len(shown)} digits shown"
        return True, f"agree{covered}: ...{others[-4:]}"
    return False, f"against: ...{own[-4:]} / ...{others[-4:]}"


def _national(phone: str | None) -> str:
    digits = [char for char in phone or "" if char in "0123456789*"]
    return "".join(digits)[-_NATIONAL_DIGITS:]
