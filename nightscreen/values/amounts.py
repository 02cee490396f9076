"""Amounts of naira as people and spreadsheets write them, read as decimals, never as floats.

A comma groups thousands and a point begins the kobo, as in Nigeria; what could also be read
otherwise is left unread. The use of an amount is not known here.
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial

import numpy as np

from nightscreen.schemas.rows import NAIRA, Action
from nightscreen.values.columns import Column, matching, present, put, where
from nightscreen.values.validators import (
    Finding,
    Notes,
    Validated,
    is_absent,
    judge_cells,
    without_unseen,
)

KOBO = Decimal("0.01")
LONGEST_AMOUNT = 40
WHOLE_DIGITS = 18

_WARNED = partial(Finding, action=Action.WARNED)
EXPOSURE_ROUNDED = _WARNED(
    "exposure_rounded", "The amount has more than two decimal places and was rounded to the kobo."
)
EXPOSURE_AMBIGUOUS = _WARNED(
    "exposure_ambiguous",
    "The amount's commas and points can be read in more than one way; write 1,250,000.00. It was "
    "taken as unknown.",
)
EXPOSURE_NEGATIVE = _WARNED(
    "exposure_negative", "A negative amount means nothing here; it was taken as unknown."
)
EXPOSURE_SCIENTIFIC = _WARNED(
    "exposure_scientific",
    "A spreadsheet has shortened the amount (scientific notation); export it in full. It was taken "
    "as unknown.",
)
EXPOSURE_TOO_LARGE = _WARNED(
    "exposure_too_large", "The amount is too large to be true; it was taken as unknown."
)
EXPOSURE_UNREADABLE = _WARNED(
    "exposure_unreadable", "The amount cannot be read as naira; it was taken as unknown."
)

_PLAIN = r"^[0-9]{1,15}(?:\.[0-9]{1,2})?$"
_CURRENCY = r"(?:₦|NGN|NAIRA|=?N=|N|#)"
_FRONT = re.compile(rf"^{_CURRENCY}\s*", re.IGNORECASE)
_BACK = re.compile(r"\s*(?:₦|NGN|NAIRA)$", re.IGNORECASE)
_NUMBER = re.compile(r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,3}(?: [0-9]{3})+|[0-9]+)?(?:\.[0-9]*)?")
_SCIENTIFIC = re.compile(r"[0-9]+(?:[.,][0-9]+)?E[+-]?[0-9]+", re.IGNORECASE)
_PUNCTUATED = re.compile(r"[0-9][0-9.,' ]*")
_EXACT = Context(prec=2 * LONGEST_AMOUNT)


def judge_amount(text: str) -> Validated[Decimal]:
    """Judge an amount that is present; the value is naira with two places, zero included."""
    if len(text) > LONGEST_AMOUNT:
        return Validated(None, (EXPOSURE_UNREADABLE,))
    number, negative = _stripped(without_unseen(text).replace("\u00a0", " ").replace("\u202f", " "))
    if is_absent(number, zero_is_value=True):
        return Validated(None)
    if not _NUMBER.fullmatch(number) or not any(c.isdigit() for c in number):
        return Validated(None, (_unread(number),))
    exact = Decimal(number.replace(",", "").replace(" ", ""))
    naira = exact.quantize(KOBO, rounding=ROUND_HALF_UP, context=_EXACT)
    if negative and naira:
        return Validated(None, (EXPOSURE_NEGATIVE,))
    if naira >= 10**WHOLE_DIGITS:
        return Validated(None, (EXPOSURE_TOO_LARGE,))
    return Validated(naira, (EXPOSURE_ROUNDED,) if _has_more_than_kobo(number) else ())


def judge_amounts(text: Column, notes: Notes, column: str = "exposure") -> Column:
    """Return a column of amounts as decimal naira after judging; codes begin with its name."""

    def judge(cell: str) -> Validated[Decimal]:
        value, findings = judge_amount(cell)
        own = (
            replace(finding, code=finding.code.replace("exposure", column)) for finding in findings
        )
        return Validated(value, tuple(own))

    plain = matching(text, _PLAIN)
    naira = where(plain, text).cast(NAIRA)
    rows = np.flatnonzero(~plain & present(text))
    return put(naira, rows, judge_cells(text, rows, judge, column, notes))


def _stripped(text: str) -> tuple[str, bool]:
    """Return an amount without currency and sign, and whether it was negative."""
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


def _unread(number: str) -> Finding:
    if _SCIENTIFIC.fullmatch(number):
        return EXPOSURE_SCIENTIFIC
    return EXPOSURE_AMBIGUOUS if _PUNCTUATED.fullmatch(number) else EXPOSURE_UNREADABLE


def _has_more_than_kobo(number: str) -> bool:
    return len(number.partition(".")[2].rstrip("0")) > len("00")
