"""Bank accounts of a batch: which bank each row means, and its account number of ten digits.

Digits are never invented: zeros are put back in front of an account only where its check digit
then agrees for the row's bank. Banks and the formula of the check digit live in `banks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from nightscreen.schemas.columns import Flaw
from nightscreen.schemas.rows import Action
from nightscreen.values.banks import ACCOUNT_DIGITS, Bank, agrees, bank_table
from nightscreen.values.issues import (
    DigitsRule,
    Issue,
    Issues,
    Validated,
    bare_digits,
    is_absent,
    is_all_digits,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nightscreen.values.columns import Column

SHORTEST_PADDED = 7
"""An account that has lost more than three leading zeros is not padded: chance is too near."""

_ACCOUNT = DigitsRule(
    *("account", "An account number", ACCOUNT_DIGITS, Flaw.ACCOUNT),
    on_length="An account number has exactly 10 digits; zeros are put back only where the bank is "
    "known and the check digit then agrees.",
)
ACCOUNT_PADDED = Issue(
    "account_padded",
    "Leading zeros that a spreadsheet had dropped were put back; the check digit then agrees with "
    "the bank.",
    Action.REPAIRED,
)
ACCOUNT_CHECK_DIGIT = Issue(
    "account_check_digit",
    "The account number's check digit does not agree with the bank; one of the two may be wrong.",
    Action.WARNED,
)


def judge_account(text: str, institution: str | None) -> Validated[str]:
    """Judge an account number that is present: 10 digits, padded only where the digit agrees.

    Args:
        text: the cell, trimmed.
        institution: six digits of the row's bank, or None where it has no check digit.
    """
    digits = bare_digits(text)
    padded = digits.zfill(ACCOUNT_DIGITS)
    short = is_all_digits(digits) and SHORTEST_PADDED <= len(digits) < ACCOUNT_DIGITS
    if short and not is_absent(digits) and institution and agrees(institution, padded):
        repaired = () if digits == text else (_ACCOUNT.issue("characters_removed"),)
        return Validated(padded, (*repaired, ACCOUNT_PADDED))
    value, issues = _ACCOUNT.judge(text)
    sound = not any(issue.flaw for issue in issues)
    if value and sound and institution and not agrees(institution, value):
        return Validated(value, (*issues, ACCOUNT_CHECK_DIGIT))
    return Validated(value, issues)


def judge_banks(codes: Column, names: Column, issues: Issues) -> tuple[Column, list[Bank | None]]:
    """Return the bank code column after judging, and each row's bank, where it is known."""
    resolve = bank_table().resolve
    verdicts = [
        resolve(code, name) for code, name in zip(codes.to_pylist(), names.to_pylist(), strict=True)
    ]
    for row, verdict in enumerate(verdicts):
        for column, issue in verdict.issues:
            issues.add(row, column, issue)
    judged = pa.array([verdict.code for verdict in verdicts], pa.string())
    return judged, [verdict.bank for verdict in verdicts]


def judge_accounts(text: Column, banks: Sequence[Bank | None], issues: Issues) -> Column:
    """Return the account column after judging, with a warning where a check digit disagrees."""
    values: list[str | None] = []
    for row, (cell, bank) in enumerate(zip(text.to_pylist(), banks, strict=True)):
        verdict = (
            judge_account(cell, bank.institution if bank else None) if cell else Validated(None)
        )
        values.append(verdict.value)
        for issue in verdict.issues:
            issues.add(row, "account_number", issue)
    return pa.array(values, pa.string())
