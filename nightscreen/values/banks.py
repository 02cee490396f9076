"""Banks: find a row's bank by its code in any scheme or by name; validate account numbers.

The table is `data/banks.csv`, which lenders may edit; it says which banks use check digits. A bank
is never guessed: a similar name is only suggested. Digits of an account are never invented: leading
zeros are restored only if the check digit then agrees with the row's bank.

The check digit (NUBAN): the 2020 standard takes fifteen digits, six of the institution and nine of
the serial number. A bank's 3-digit code counts as `000` and the code, which gives the same digit as
the older standard of twelve digits; any other institution counts as `9` and its 5-digit code. A
wrong digit is only a warning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rapidfuzz import fuzz, process

from nightscreen.schemas.columns import Flaw
from nightscreen.schemas.errors import SettingsError
from nightscreen.schemas.rows import Action
from nightscreen.schemas.shipped import DATA, read_rows
from nightscreen.values.issues import (
    ColumnRule,
    Issue,
    Issues,
    Validated,
    at,
    bare_digits,
    is_absent,
    is_all_digits,
    is_scientific,
    issue,
    judge_column,
    judge_digits,
    matching,
    present,
    sure_digits,
    where,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from nightscreen.values.issues import Column

ACCOUNT_DIGITS = 10  # the service's specification, section Limits

# of the NUBAN standard, for its fifteen digits (see above) and the check digit, from the right
_WEIGHTS = (1, *(3, 7, 3) * 5)
_INSTITUTION_DIGITS = 6  # the first of the fifteen
# of the central bank's code, which the service takes (its specification, section Limits)
SERVICE_DIGITS = 3
# of codes for instant payments, and for other financial institutions, in data/banks.csv
NIP_DIGITS = 6
OFI_DIGITS = 5
# a choice: the longest name in data/banks.csv has 35; bounds the search for a similar one
LONGEST_NAME = 200
_SCHEME_DIGITS = frozenset({SERVICE_DIGITS, OFI_DIGITS, NIP_DIGITS})
_CHECKS = frozenset({"dmb", "ofi", "none"})
_COLUMNS = ("name", "aliases", "code", "other_codes", "kind", "check")
_PAIRS_KEPT = 65536  # pairs of code and name: bounds memory if cells hold anything
_CLOSE = 80.0  # per cent similar, a choice: the bank is only suggested, never used
_SHORTEST_NEAR = 4  # letters: with three, one more or less would still pass `_CLOSE`

BANK_UNKNOWN = "bank_unknown"
"""Code of the issue of a code or name that no bank has."""
SHORTEST_PADDED = 7
"""An account that lost more than three leading zeros is not padded: a match would be by chance."""

_DROPPED = frozenset(
    ["plc", "bank", "bnk", "nigeria", "nig", "ng", "ltd", "limited", "the", "of", "inc"]
)
_WORDS = re.compile(r"[^\W_]+")
_CODE_AND_NAME = re.compile(r"\(?([0-9]{3}|[0-9]{5,6})\)?\s*[-:/,.|)\s]\s*(\D+)")
_NAME_AND_CODE = re.compile(r"(\D+?)\s*[-:/,.|(\s]\s*\(?([0-9]{3}|[0-9]{5,6})\)?")


def institution_of(code: str) -> str:
    """Return the six digits of a 3-digit bank or 5-digit institution in the formula."""
    return code.zfill(_INSTITUTION_DIGITS) if len(code) == len("044") else f"9{code}"


def agrees(institution: str, account: str) -> bool:
    """Return whether an account number of ten digits ends in the right check digit."""
    return bool(_weighted(int(institution + account)) % 10 == 0)


def _weighted(number: Any) -> Any:  # noqa: ANN401 - a number or an array of numbers
    """Return the weighted sum of a number's digits: a multiple of ten if the check digit agrees.

    The number is made of six digits of institution and ten of account.
    """
    return sum(number // 10**place % 10 * weight for place, weight in enumerate(_WEIGHTS))


@dataclass(frozen=True)
class Bank:
    """One row of the table."""

    name: str  # its usual name
    aliases: tuple[str, ...]  # other names
    code: str | None  # 3-digit central-bank code; None if the service cannot look it up
    other_codes: tuple[str, ...]  # its codes in other schemes
    check: str  # `dmb`, `ofi` or `none`

    @cached_property
    def institution(self) -> str | None:
        """Six digits for the check digit formula; None if its accounts have no check digit."""
        if self.check == "none":
            return None
        ofi_codes = [code for code in self.other_codes if len(code) == OFI_DIGITS]
        code = self.code if self.check == "dmb" else next(iter(ofi_codes), None)
        return institution_of(code) if code else None


class BankVerdict(NamedTuple):
    """The bank of a row."""

    code: str | None  # for the column `bank_code`: the 3-digit code, or the text as received
    bank: Bank | None = None  # if there is exactly one
    issues: tuple[tuple[str, Issue], ...] = ()  # (column, issue) pairs


class _CodeReading(NamedTuple):
    banks: tuple[Bank, ...]
    repaired: bool = False
    malformed: bool = False


class BankTable:
    """The known banks, found by code or name.

    Raises:
        SettingsError: two banks share a code or a name.
    """

    def __init__(self, banks: Iterable[Bank]) -> None:
        self.banks = tuple(banks)
        self._by_code: dict[str, Bank] = {}
        self._by_name: dict[str, Bank] = {}
        for bank in self.banks:
            for code in filter(None, (bank.code, *bank.other_codes)):
                _claim(self._by_code, code, bank, "code")
            for name in (bank.name, *bank.aliases):
                _claim(self._by_name, folded(name), bank, "name")
        self.resolve = lru_cache(maxsize=_PAIRS_KEPT)(self._resolve)

    def by_code(self, code: str) -> Bank | None:
        """Return the bank with this code, of any scheme, written in full."""
        return self._by_code.get(code)

    def by_name(self, name: str) -> Bank | None:
        """Return the bank with this name or alias; case, punctuation, BANK and PLC are ignored."""
        return self._by_name.get(folded(name))

    def nearest(self, name: str) -> str | None:
        """Return the name of the bank that is spelt most like this one, if similar enough."""
        key = folded(name)
        if len(key) < _SHORTEST_NEAR:
            return None
        best = process.extractOne(key, self._by_name.keys(), scorer=fuzz.ratio, score_cutoff=_CLOSE)
        return self._by_name[best[0]].name if best else None

    def _resolve(self, code: str | None, name: str | None) -> BankVerdict:
        """Return the bank of a row's code and name; both trimmed, None if absent."""
        if code is None and name and bare_digits(name).isdecimal():  # a column Bank holds codes
            verdict = self._resolve(name, None)
            if verdict.bank:
                issues = tuple(("bank_name", each) for _, each in verdict.issues)
                return verdict._replace(issues=issues)
        reading = self._read_code(code) if code else _CodeReading(())
        named = self._read_name(name) if name else None
        if len(reading.banks) > 1 and named in reading.banks:
            reading = _CodeReading((named,), repaired=True) if named else reading
        if len(reading.banks) > 1:
            return BankVerdict(code, issues=(("bank_code", issue("bank_code_ambiguous")),))
        bank = reading.banks[0] if reading.banks else named
        if bank is None and code and reading.malformed:
            return BankVerdict(code, issues=(("bank_code", issue("bank_code_malformed")),))
        if bank is None:
            return self._unknown(code, name) if code or name else BankVerdict(None)
        found_by = "bank_code" if reading.banks else "bank_name"
        found = (
            ("bank_code", "bank_code_repaired", reading.banks and reading.repaired),
            ("bank_name", "bank_disagrees", named not in (None, bank)),
            ("bank_code", "bank_code_from_name", code and not reading.banks),
            (found_by, "bank_not_served", bank.code is None),
        )
        issues = tuple((column, issue(kind)) for column, kind, applies in found if applies)
        return BankVerdict(bank.code or code, bank, issues)

    def _read_code(self, text: str) -> _CodeReading:
        digits = bare_digits(text)
        if not (digits.isascii() and digits.isdigit()):
            bank = self._read_name(text)
            unreadable = is_scientific(text) or not any(c.isalpha() for c in text)
            return _CodeReading((bank,) if bank else (), malformed=unreadable)
        if is_absent(digits):
            return _CodeReading(())
        codes = [digits] if len(digits) in _SCHEME_DIGITS else []
        if len(digits) < SERVICE_DIGITS and digits.zfill(SERVICE_DIGITS) in self._by_code:
            codes += [digits.zfill(SERVICE_DIGITS), digits.zfill(NIP_DIGITS)]
        if len(digits) == OFI_DIGITS:
            codes.append(digits.zfill(NIP_DIGITS))
        by_code = {code: self._by_code[code] for code in codes if code in self._by_code}
        banks = tuple(dict.fromkeys(by_code.values()))
        malformed = not banks and len(digits) not in _SCHEME_DIGITS
        return _CodeReading(banks, repaired=text not in by_code, malformed=malformed)

    def _read_name(self, text: str) -> Bank | None:
        """Return the bank of a cell with a name, a code, or both."""
        if len(text) > LONGEST_NAME:
            return None
        bank = self.by_name(text) or self.by_code(text)
        if bank:
            return bank
        if both := _CODE_AND_NAME.fullmatch(text):
            code, name = both[1], both[2]
        elif both := _NAME_AND_CODE.fullmatch(text):
            name, code = both[1], both[2]
        else:
            return None
        bank = self.by_code(code)
        return bank if bank and bank == self.by_name(name) else None

    def _unknown(self, code: str | None, name: str | None) -> BankVerdict:
        column, text = ("bank_name", name) if name else ("bank_code", code or "")
        near = self.nearest(text) if len(text) <= LONGEST_NAME else None
        question = f" Did you mean {near}?" if near else ""
        hint = f"No bank in data/banks.csv has this code or name.{question} Correct it or add it."
        unknown = Issue(BANK_UNKNOWN, hint, Action.WARNED, Flaw.BANK_UNKNOWN)
        return BankVerdict(code, issues=((column, unknown),))


def folded(name: str) -> str:
    """Return a bank's name to compare: without case, blanks, punctuation, BANK, PLC, NIGERIA."""
    plain = name.casefold().replace("&", " and ").replace("'", "")
    words = [word for word in _WORDS.findall(plain) if word not in _DROPPED]
    joined = "".join("microfinance" if word == "mfb" else word for word in words)
    shorter = joined.removesuffix("plc").removesuffix("bank")
    return shorter or joined


def load_banks(path: Path) -> BankTable:
    """Read a CSV file with the columns of `data/banks.csv`.

    Raises:
        SettingsError: the file is missing, a row is incomplete, or two banks share a name.
    """
    rows = read_rows(path)
    if not rows or tuple(rows[0]) != _COLUMNS:
        raise SettingsError(f"{path.name} must have the columns {', '.join(_COLUMNS)}.")
    return BankTable([_bank(row, path) for row in rows if not row["name"].startswith("#")])


@cache
def bank_table() -> BankTable:
    """Return the table of `data/banks.csv`, read once."""
    return load_banks(DATA / "banks.csv")


def _bank(row: dict[str, str], path: Path) -> Bank:
    code = (row["code"] or "").strip() or None
    others = _listed(row["other_codes"])
    check = (row["check"] or "").strip()
    digits = all(c.isascii() and c.isdigit() for c in (*others, *filter(None, (code,))))
    is_valid = digits and (code is None or len(code) == SERVICE_DIGITS) and check in _CHECKS
    if not (row["name"] or "").strip() or not is_valid:
        raise SettingsError(
            f"{path.name}: the row of {row['name'] or 'a bank without a name'} is not right: code "
            f"has 3 digits or is blank, other codes are digits, check is dmb, ofi or none."
        )
    aliases = _listed(row["aliases"])
    return Bank(row["name"].strip(), aliases, code, others, check)


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split("|") if part.strip())


def _claim(table: dict[str, Bank], key: str, bank: Bank, what: str) -> None:
    owner = table.setdefault(key, bank)
    if owner is not bank:
        raise SettingsError(
            f"data/banks.csv: {bank.name} and {owner.name} share a {what} ({key}); change one."
        )


def judge_account(text: str, institution: str | None) -> Validated[str]:
    """Validate an account number: 10 digits, padded only if the check digit agrees.

    Args:
        text: the cell, trimmed.
        institution: six digits of the row's bank; None if it has no check digit.
    """
    digits = bare_digits(text)
    padded = digits.zfill(ACCOUNT_DIGITS)
    is_short = is_all_digits(digits) and SHORTEST_PADDED <= len(digits) < ACCOUNT_DIGITS
    if is_short and not is_absent(digits) and institution and agrees(institution, padded):
        repaired = () if digits == text else (issue("account_characters_removed"),)
        return Validated(padded, (*repaired, issue("account_padded")))
    value, issues = judge_digits(text, "account", ACCOUNT_DIGITS)
    is_valid = not any(each.flaw for each in issues)
    if value and is_valid and institution and not agrees(institution, value):
        return Validated(value, (*issues, issue("account_check_digit")))
    return Validated(value, issues)


def judge_banks(codes: Column, names: Column, issues: Issues) -> tuple[Column, Column]:
    """Return the validated bank codes, and six digits of each bank for the check digit formula."""
    code, name = (each.dictionary_encode(null_encoding="encode") for each in (codes, names))
    size = max(1, len(name.dictionary))
    both = code.indices.to_numpy().astype(np.int64) * size + name.indices.to_numpy()
    pairs, places = np.unique(both, return_inverse=True)
    found = zip(at(code.dictionary, pairs // size), at(name.dictionary, pairs % size), strict=True)
    verdicts = [bank_table().resolve(*pair) for pair in found]
    issues.spread(places, [verdict.issues for verdict in verdicts])
    judged = pa.array([verdict.code for verdict in verdicts], pa.string())
    institutions = [verdict.bank and verdict.bank.institution for verdict in verdicts]
    return judged.take(pa.array(places)), pa.array(institutions, pa.string()).take(pa.array(places))


def judge_accounts(text: Column, institutions: Column, issues: Issues) -> Column:
    """Return the validated account column; a check digit that disagrees is a warning."""
    both = pc.binary_join_element_wise(institutions.fill_null(""), text, "/")
    return judge_column(
        both, ColumnRule(_judge_with_bank, _sure_accounts), "account_number", issues
    )


def _judge_with_bank(cell: str) -> Validated[str]:
    institution, _, account = cell.partition("/")
    return judge_account(account, institution or None)


def _sure_accounts(both: Column) -> Column:
    """Return the accounts of ten digits whose check digit agrees, or whose bank has none."""
    bare = pc.replace_substring_regex(both, pattern="^[0-9]*/", replacement="")
    accounts = sure_digits(bare, ACCOUNT_DIGITS)
    numbers = pc.replace_substring(where(present(accounts), both), "/", "").fill_null("0")
    agree = _weighted(pc.cast(numbers, pa.int64()).to_numpy()) % 10 == 0
    return where(agree | matching(both, "^/"), accounts)
