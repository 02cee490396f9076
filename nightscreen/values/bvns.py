"""BVNs: eleven digits, and what may be repaired in them.

Digits are never invented: a BVN is never padded, and letters are never read as digits. The service
says whether a BVN exists, not this module.
"""

from __future__ import annotations

from functools import partial

from nightscreen.schemas.columns import Flaw
from nightscreen.schemas.rows import Action
from nightscreen.values.columns import Column, matching
from nightscreen.values.validators import (
    Finding,
    Notes,
    Validated,
    bare_digits,
    is_absent,
    is_all_digits,
    is_one_digit_repeated,
    is_scientific,
    judge_text,
    one_digit_repeated,
)

BVN_DIGITS = 11

_INVALID = partial(Finding, action=Action.INVALID, flaw=Flaw.BVN)

BVN_REPAIRED = Finding(
    "bvn_characters_removed",
    "Blanks, dashes or spreadsheet marks were removed from the BVN.",
    Action.REPAIRED,
)
BVN_PLACEHOLDER = Finding(
    "bvn_placeholder",
    "One digit repeated is a filled-in field, not a BVN; it was taken as absent.",
    Action.WARNED,
)
BVN_SCIENTIFIC = _INVALID(
    "bvn_scientific",
    "A spreadsheet has destroyed this BVN (scientific notation); format the column as text in the "
    "source and export it again.",
)
BVN_LENGTH = _INVALID(
    "bvn_length", "A BVN has exactly 11 digits; digits are never added, so correct it at source."
)
BVN_LETTERS = _INVALID(
    "bvn_letters", "A BVN has digits only; letters such as O and I are not turned into digits."
)
BVN_CHARACTERS = _INVALID("bvn_characters", "A BVN has digits only; correct it at source.")


def judge_bvn(text: str) -> Validated[str]:
    """Judge a BVN that is present: 11 digits, repaired where nothing is ambiguous."""
    digits = bare_digits(text)
    if is_absent(digits):
        return Validated(None)
    if is_scientific(text):
        return Validated(text, (BVN_SCIENTIFIC,))
    if not is_all_digits(digits):
        letters = any(character.isalpha() for character in digits)
        return Validated(text, (BVN_LETTERS if letters else BVN_CHARACTERS,))
    if len(digits) != BVN_DIGITS:
        return Validated(text, (BVN_LENGTH,))
    if is_one_digit_repeated(digits):
        return Validated(None, (BVN_PLACEHOLDER,))
    return Validated(digits, (BVN_REPAIRED,) if digits != text else ())


def judge_bvns(text: Column, notes: Notes) -> Column:
    """Return the BVN column after judging."""
    plain = matching(text, f"^[0-9]{{{BVN_DIGITS}}}$") & ~one_digit_repeated(text)
    return judge_text(text, plain, judge_bvn, "bvn", notes)
