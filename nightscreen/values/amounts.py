"""Validate amounts of naira and lengths of loans, as people and spreadsheets write them.

Amounts are decimals, never floats. A comma groups thousands and a point begins the kobo, as in
Nigeria; an ambiguous amount is not read. A length is whole days: a month has thirty and a year 365,
as lenders count.
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.schemas.rows import NAIRA
from nightscreen.values.issues import (
    ColumnRule,
    Validated,
    is_absent,
    judged,
    matching,
    where,
    without_unseen,
)

if TYPE_CHECKING:
    from nightscreen.values.issues import Column

KOBO = Decimal("0.01")
LONGEST_AMOUNT = 40  # `WHOLE_DIGITS` with commas, kobo and a currency take 30
WHOLE_DIGITS = 18  # the column's: `NAIRA` has 20 digits, two of them kobo

TENOR = "requested_tenor_days"
LONGEST_DAYS = 40 * 365  # longer than any mortgage
_TENOR = re.compile(
    r"(\d{1,5})(?:\.0+)?\s*(?:(d|days?)|(w|wks?|weeks?)|(m|mo|mths?|months?)|(y|yrs?|years?))?",
    re.IGNORECASE,
)
_UNIT_DAYS = (1, 7, 30, 365)  # of day, week, month and year, in the order of the groups of `_TENOR`
_CURRENCY = r"(?:₦|NGN|NAIRA|=?N=|N|#)"
_FRONT = re.compile(rf"^{_CURRENCY}\s*", re.IGNORECASE)
_BACK = re.compile(r"\s*(?:₦|NGN|NAIRA)$", re.IGNORECASE)
_NUMBER = re.compile(r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,3}(?: [0-9]{3})+|[0-9]+)?(?:\.[0-9]*)?")
_SCIENTIFIC = re.compile(r"[0-9]+(?:[.,][0-9]+)?E[+-]?[0-9]+", re.IGNORECASE)
_PUNCTUATED = re.compile(r"[0-9][0-9.,' ]*")
_ORDINARY = r"^(?:[0-9]{1,15}|[0-9]{1,3}(?:,[0-9]{3}){1,4})(?:\.[0-9]{1,2})?$"
"""RE2 pattern of amounts that fit into the column as they are."""
_EXACT = Context(prec=2 * LONGEST_AMOUNT)  # digits, enough for any amount that fits in the text


def judge_amount(text: str) -> Validated[Decimal]:
    """Validate an amount; the value is naira with two decimals, zero included."""
    if len(text) > LONGEST_AMOUNT:
        return judged(None, "exposure_unreadable")
    number, negative = _stripped(without_unseen(text).replace("\u00a0", " ").replace("\u202f", " "))
    if is_absent(number, zero_is_value=True):
        return Validated(None)
    if not _NUMBER.fullmatch(number) or not any(c.isdigit() for c in number):
        return judged(None, _unread(number))
    exact = Decimal(number.replace(",", "").replace(" ", ""))
    naira = exact.quantize(KOBO, rounding=ROUND_HALF_UP, context=_EXACT)
    if negative and naira:
        return judged(None, "exposure_negative")
    if naira >= 10**WHOLE_DIGITS:
        return judged(None, "exposure_too_large")
    return Validated(naira) if naira == exact else judged(naira, "exposure_rounded")


def sure_amounts(text: Column) -> Column:
    """Return the values of amounts in plain digits, with or without commas and kobo."""
    return pc.cast(pc.replace_substring(where(matching(text, _ORDINARY), text), ",", ""), NAIRA)


def amounts(column: str) -> ColumnRule[Decimal]:
    """Return the rule of a column of amounts; its issues' codes begin with the column's name."""

    def judge(cell: str) -> Validated[Decimal]:
        value, issues = judge_amount(cell)
        named = (replace(each, code=each.code.replace("exposure", column)) for each in issues)
        return Validated(value, tuple(named))

    return ColumnRule(judge, sure_amounts, NAIRA)


def _stripped(text: str) -> tuple[str, bool]:
    """Return an amount without currency and sign, and whether it is negative."""
    bare, negative = text, False
    if bare.startswith("(") and bare.endswith(")"):
        bare, negative = bare[1:-1].strip(), True
    bare = _without_currency(bare)
    if bare[:1] in {"-", "+", "\u2212"}:
        negative = negative or bare[0] != "+"
        bare = _without_currency(bare[1:].strip())
    return bare, negative


def _without_currency(text: str) -> str:
    return _BACK.sub("", _FRONT.sub("", text)).strip()


def _unread(number: str) -> str:
    """Return the code of an amount that cannot be read."""
    if _SCIENTIFIC.fullmatch(number):
        return "exposure_scientific"
    return "exposure_ambiguous" if _PUNCTUATED.fullmatch(number) else "exposure_unreadable"


def judge_tenor(text: str) -> Validated[int]:
    """Validate the length of a loan; the value is days."""
    match = _TENOR.fullmatch(without_unseen(text))
    if match is None:
        return judged(None, f"{TENOR}_unreadable")
    units = zip(_UNIT_DAYS, match.groups()[1:], strict=True)
    unit = next((days for days, name in units if name), 1)
    days = int(match[1]) * unit
    if not 0 < days <= LONGEST_DAYS:
        return judged(None, f"{TENOR}_unreadable")
    return Validated(days)


DAYS: Final = ColumnRule(judge_tenor, kind=pa.int64())
