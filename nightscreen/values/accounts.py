"""Bank accounts of a batch: which bank each row means, and its account number of ten digits.

Digits are never invented: zeros are put back in front of an account only where its check digit
then agrees for the row's bank. Banks and the formula of the check digit live in `banks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from nightscreen.schemas.columns import Flaw
from nightscreen.schemas.rows import Action
from nightscreen.values.banks import (
    ACCOUNT_DIGITS,
    BANK_CODE_AMBIGUOUS,
    BANK_CODE_FROM_ACCOUNT,
    Bank,
    agrees,
    bank_table,
)
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


def judge_banks(
    codes: Column, names: Column, accounts: Column, issues: Issues
) -> tuple[Column, list[Bank | None]]:
    """Return the bank code column after judging, and each row's bank, where it is known.

    A code that without its leading zeros could mean two banks is decided by the account's check
    digit, where that agrees with one only.
    """
    resolve = bank_table().resolve
    judged: list[str | None] = []
    banks: list[Bank | None] = []
    for row, (code, name) in enumerate(zip(codes.to_pylist(), names.to_pylist(), strict=True)):
        verdict = resolve(code, name)
        text, bank, found = verdict.code, verdict.bank, verdict.issues
        if verdict.candidates:
            bank = _only_agreeing(verdict.candidates, bare_digits(accounts[row].as_py() or ""))
            text = bank.code if bank else text
            found = (("bank_code", BANK_CODE_FROM_ACCOUNT if bank else BANK_CODE_AMBIGUOUS),)
        for column, issue in found:
            issues.add(row, column, issue)
        judged.append(text)
        banks.append(bank)
    return pa.array(judged, pa.string()), banks


def _only_agreeing(banks: tuple[Bank, ...], account: str) -> Bank | None:
    """Return the one bank that this account's check digit agrees with, if it is one."""
    if len(account) != ACCOUNT_DIGITS or not is_all_digits(account):
        return None
    fits = [bank for bank in banks if bank.institution and agrees(bank.institution, account)]
    return fits[0] if len(fits) == 1 and fits[0].code else None


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
