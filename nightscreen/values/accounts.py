"""Bank accounts of a batch: which bank each row means, and its account number of ten digits.

Digits are never invented: zeros are put back in front of an account only where its check digit
then agrees for the row's bank. Banks are known in `banks`, the formula lives in `nuban`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nightscreen.schemas.columns import Flaw
from nightscreen.schemas.rows import Action
from nightscreen.values.banks import (
    BANK_CODE_AMBIGUOUS,
    BANK_CODE_FROM_ACCOUNT,
    Bank,
    bank_table,
)
from nightscreen.values.columns import Column, Mask, Places, at, matching, present, put
from nightscreen.values.nuban import (
    ACCOUNT_DIGITS,
    NO_CHECK,
    agreeing,
    agrees,
    institution_sum,
)
from nightscreen.values.validators import (
    Finding,
    Notes,
    Validated,
    bare_digits,
    is_absent,
    is_all_digits,
    is_one_digit_repeated,
    is_scientific,
    one_digit_repeated,
)

if TYPE_CHECKING:
    import numpy.typing as npt

SHORTEST_PADDED = 7
"""An account that has lost more than three leading zeros is not padded: chance is too near."""

_INVALID = partial(Finding, action=Action.INVALID, flaw=Flaw.ACCOUNT)

ACCOUNT_REPAIRED = Finding(
    "account_characters_removed",
    "Blanks, dashes or spreadsheet marks were removed from the account number.",
    Action.REPAIRED,
)
ACCOUNT_PADDED = Finding(
    "account_padded",
    "Leading zeros that a spreadsheet had dropped were put back; the check digit then agrees with "
    "the bank.",
    Action.REPAIRED,
)
ACCOUNT_PLACEHOLDER = Finding(
    "account_placeholder",
    "One digit repeated is a filled-in field, not an account number; it was taken as absent.",
    Action.WARNED,
)
ACCOUNT_CHECK_DIGIT = Finding(
    "account_check_digit",
    "The account number's check digit does not agree with the bank; one of the two may be wrong.",
    Action.WARNED,
)
ACCOUNT_SCIENTIFIC = _INVALID(
    "account_scientific",
    "A spreadsheet has destroyed this account number (scientific notation); format the column as "
    "text in the source and export it again.",
)
ACCOUNT_LENGTH = _INVALID(
    "account_length",
    "An account number has exactly 10 digits; zeros are put back only where the bank is known and "
    "the check digit then agrees.",
)
ACCOUNT_LETTERS = _INVALID(
    "account_letters",
    "An account number has digits only; letters such as O and I are not turned into digits.",
)
ACCOUNT_CHARACTERS = _INVALID(
    "account_characters", "An account number has digits only; correct it at source."
)


@dataclass(slots=True)
class RowBanks:
    """The bank of each row.

    Attributes:
        banks: the banks that occur, None for no bank or one that is not known.
        of_row: for each row the place of its bank in `banks`.
    """

    banks: list[Bank | None]
    of_row: npt.NDArray[np.int64]

    def institution(self, row: int) -> str | None:
        """Return six digits for the check digit, or None where the row's bank has none."""
        bank = self.banks[int(self.of_row[row])]
        return bank.institution if bank else None

    def institution_sums(self) -> npt.NDArray[np.int64]:
        """Return `nuban.institution_sum` of each row's bank, `nuban.NO_CHECK` where it has none."""
        institutions = [bank.institution if bank else None for bank in self.banks]
        sums = [NO_CHECK if name is None else institution_sum(name) for name in institutions]
        return np.array(sums, dtype=np.int64)[self.of_row]


def judge_account(text: str, institution: str | None) -> Validated[str]:
    """Judge an account number that is present: 10 digits, padded only where the digit agrees.

    Args:
        text: the cell, trimmed.
        institution: six digits of the row's bank, or None where it has no check digit.
    """
    digits = bare_digits(text)
    if is_absent(digits):
        return Validated(None)
    repaired = (ACCOUNT_REPAIRED,) if digits != text else ()
    if is_all_digits(digits) and len(digits) == ACCOUNT_DIGITS:
        if is_one_digit_repeated(digits):
            return Validated(None, (ACCOUNT_PLACEHOLDER,))
        return Validated(digits, repaired)
    padded = _padded(digits, institution)
    if padded:
        return Validated(padded, (*repaired, ACCOUNT_PADDED))
    return Validated(text, (_fault(text, digits),))


def _padded(digits: str, institution: str | None) -> str | None:
    """Return a short account with its lost zeros, where the check digit then agrees."""
    short = is_all_digits(digits) and SHORTEST_PADDED <= len(digits) < ACCOUNT_DIGITS
    padded = digits.zfill(ACCOUNT_DIGITS)
    return padded if short and institution and agrees(institution, padded) else None


def _fault(text: str, digits: str) -> Finding:
    if is_scientific(text):
        return ACCOUNT_SCIENTIFIC
    if is_all_digits(digits):
        return ACCOUNT_LENGTH
    letters = any(character.isalpha() for character in digits)
    return ACCOUNT_LETTERS if letters else ACCOUNT_CHARACTERS


def judge_banks(
    codes: Column, names: Column, accounts: Column, notes: Notes
) -> tuple[Column, RowBanks]:
    """Return the bank code column after judging, and the bank of each row.

    Each distinct pair of code and name is resolved once. A code that without its leading zeros
    could mean two banks is decided by the account's check digit, where that agrees with one only.
    """
    of_row, first = _distinct(codes, names)
    distinct = zip(at(codes, first), at(names, first), strict=True)
    resolve = bank_table().resolve
    verdicts = [resolve(code, name) for code, name in distinct]
    judged = pa.array([verdict.code for verdict in verdicts], pa.string())
    judged = judged.take(pa.array(of_row, pa.int64()))
    noteworthy = np.array([bool(verdict.findings) for verdict in verdicts], dtype=np.bool_)
    for row in np.flatnonzero(noteworthy[of_row]).tolist():
        for column, finding in verdicts[of_row[row]].findings:
            notes.add(row, column, finding)
    banks = RowBanks([verdict.bank for verdict in verdicts], of_row)
    candidates = [verdict.candidates for verdict in verdicts]
    return _decided(judged, banks, candidates, accounts, notes), banks


def judge_accounts(text: Column, banks: RowBanks, notes: Notes) -> Column:
    """Return the account column after judging, with a warning where a check digit disagrees."""
    plain = matching(text, f"^[0-9]{{{ACCOUNT_DIGITS}}}$") & ~one_digit_repeated(text)
    rows = np.flatnonzero(~plain & present(text))
    values = []
    for row, cell in zip(rows.tolist(), at(text, rows), strict=True):
        verdict = judge_account(cell, banks.institution(row))
        values.append(verdict.value)
        for finding in verdict.findings:
            notes.add(row, "account_number", finding)
    judged = put(text, rows, values)
    _warn_of_check_digits(judged, banks.institution_sums(), notes)
    return judged


def _distinct(codes: Column, names: Column) -> tuple[Places, Places]:
    """Return for each row which distinct pair it has, and the first row of each pair."""
    code = codes.dictionary_encode(null_encoding="encode").indices.to_numpy().astype(np.int64)
    name = names.dictionary_encode(null_encoding="encode").indices.to_numpy().astype(np.int64)
    pairs = code * (len(names) + 1) + name
    _, first, of_row = np.unique(pairs, return_index=True, return_inverse=True)
    return of_row.astype(np.int64), first.astype(np.int64)


def _decided(
    codes: Column,
    banks: RowBanks,
    candidates: list[tuple[Bank, ...]],
    accounts: Column,
    notes: Notes,
) -> Column:
    """Let the account decide where a code could mean several banks; `banks` is passed in."""
    open_pairs = np.array([bool(several) for several in candidates], dtype=np.bool_)
    rows = np.flatnonzero(open_pairs[banks.of_row])
    values = at(codes, rows)
    for index, row in enumerate(rows.tolist()):
        digits = bare_digits(accounts[row].as_py() or "")
        bank = _only_agreeing(candidates[banks.of_row[row]], digits)
        notes.add(row, "bank_code", BANK_CODE_FROM_ACCOUNT if bank else BANK_CODE_AMBIGUOUS)
        if bank:
            values[index] = bank.code
            banks.banks.append(bank)
            banks.of_row[row] = len(banks.banks) - 1
    return put(codes, rows, values)


def _only_agreeing(banks: tuple[Bank, ...], account: str) -> Bank | None:
    """Return the one bank that this account's check digit agrees with, if it is one."""
    if len(account) != ACCOUNT_DIGITS or not is_all_digits(account):
        return None
    fits = [bank for bank in banks if bank.institution and agrees(bank.institution, account)]
    return fits[0] if len(fits) == 1 and fits[0].code else None


def _warn_of_check_digits(
    accounts: Column, institution_sums: npt.NDArray[np.int64], notes: Notes
) -> None:
    sound: Mask = present(accounts) & ~notes.spot(Flaw.ACCOUNT) & (institution_sums != NO_CHECK)
    rows = np.flatnonzero(sound)
    numbers = accounts.take(pa.array(rows, pa.int64())).cast(pa.int64()).to_numpy()
    for row in rows[~agreeing(institution_sums[rows], numbers)].tolist():
        notes.add(row, "account_number", ACCOUNT_CHECK_DIGIT)
