"""Validate Nigerian phone numbers with `phonenumbers`; the value is `+234` and ten digits.

Ordinary mobile numbers are recognised by the library's own pattern. Nothing is looked up.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

import phonenumbers
import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.values.issues import (
    ColumnRule,
    Validated,
    bare_digits,
    is_absent,
    is_one_digit_repeated,
    is_scientific,
    issue,
    judged,
    matching,
    where,
    without_unseen,
)

if TYPE_CHECKING:
    from nightscreen.values.issues import Column

REGION = "NG"
# the service's specification, section Limits: `+234` and ten digits
COUNTRY_CODE = 234
NATIONAL_DIGITS = 10
# characters, enough for several numbers and words: bounds the time of the library's parser
LONGEST_CELL = 200

_SEPARATORS = re.compile(r"\s*(?:[/,;|&\n]|\b(?:or|and)\b)\s*", re.IGNORECASE)
_LETTER = re.compile(r"[^\W\d_]")
_MOBILE_FORM = re.compile(r"[789][0-9]{9}")
_FILLED_IN = re.compile(r"[789]0{9}")
_SPACED = r"^\+?[0-9]+(?:[ -][0-9]+)*$"
_PLACEHOLDER = "^(?:[789]0+|7+|8+|9+)$"


@cache
def _mobile() -> str:
    """Return the RE2 pattern of ordinary mobile numbers, from the library's own metadata."""
    metadata = phonenumbers.PhoneMetadata.metadata_for_region(REGION)
    mobile = metadata.mobile.national_number_pattern if metadata and metadata.mobile else None
    return rf"^(?:\+?{COUNTRY_CODE}|0)?(?:{mobile or '[^0-9]'})$"


def sure_phones(text: Column) -> Column:
    """Return the values of ordinary mobile numbers, whose digits a blank or dash may part."""
    spaced = matching(text, _SPACED)
    bare = pc.replace_substring_regex(where(spaced, text), pattern="[ -]", replacement="")
    ordinary = where(matching(bare, _mobile()), bare)
    national = pc.utf8_slice_codeunits(ordinary, -NATIONAL_DIGITS)
    numbers = pc.binary_join_element_wise(pa.scalar(f"+{COUNTRY_CODE}"), national, "")
    return where(~matching(national, _PLACEHOLDER), numbers)


def judge_phone(text: str) -> Validated[str]:
    """Validate a phone number; the value is `+234` and ten digits."""
    bare = without_unseen(text).removesuffix(".0")
    if is_absent(bare_digits(bare)):
        return Validated(None)
    if len(text) > LONGEST_CELL or is_scientific(bare):
        return judged(text, f"phone_{'scientific' if is_scientific(bare) else 'malformed'}")
    parts = [part for part in _SEPARATORS.split(bare) if part]
    if len(parts) > 1:
        return _judge_several(text, parts)
    verdict = _judge_one(text, bare)
    if bare == text or any(each.flaw for each in verdict.issues):
        return verdict
    return Validated(verdict.value, (issue("phone_characters_removed"), *verdict.issues))


def _judge_several(text: str, parts: list[str]) -> Validated[str]:
    verdicts = [_judge_one(part, part) for part in parts]
    if any(verdict.issues or verdict.value is None for verdict in verdicts):
        return judged(text, "phone_malformed")
    return judged(verdicts[0].value, "phone_first_of_several")


def _judge_one(text: str, bare: str) -> Validated[str]:
    parsed = _parsed(bare)
    if _LETTER.search(bare) or parsed is None:
        return judged(text, f"phone_{'letters' if _LETTER.search(bare) else 'malformed'}")
    if parsed.country_code != COUNTRY_CODE:
        return judged(text, "phone_not_nigerian")
    digits = phonenumbers.national_significant_number(parsed)
    if _is_filled_in(digits):
        return judged(None, "phone_placeholder")
    assigned = phonenumbers.is_valid_number(parsed)
    if len(digits) != NATIONAL_DIGITS or not (assigned or _MOBILE_FORM.fullmatch(digits)):
        return judged(text, "phone_malformed")
    number = f"+{COUNTRY_CODE}{digits}"
    return Validated(number) if assigned else judged(number, "phone_prefix")


def _is_filled_in(digits: str) -> bool:
    return is_one_digit_repeated(digits) or _FILLED_IN.fullmatch(digits) is not None


def _parsed(bare: str) -> phonenumbers.PhoneNumber | None:
    dialled = f"+{bare[2:]}" if bare.startswith("00") else bare
    try:
        return phonenumbers.parse(dialled, REGION)
    except phonenumbers.NumberParseException:
        return None


PHONE: Final = ColumnRule(judge_phone, sure_phones)
