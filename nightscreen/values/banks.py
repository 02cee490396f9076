"""Banks: which one a row means, by code of any scheme or by name, and its 3-digit code.

The table is `data/banks.csv`, which lenders may edit. A bank is never guessed: a near miss is only
suggested. The check digit of account numbers lives in `nuban`, accounts in `accounts`.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from rapidfuzz import fuzz, process

from nightscreen.schemas.columns import Flaw
from nightscreen.schemas.errors import SettingsError
from nightscreen.schemas.rows import Action
from nightscreen.schemas.shipped import DATA
from nightscreen.values.nuban import institution_of
from nightscreen.values.validators import Finding, bare_digits, is_absent, is_scientific

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SERVICE_DIGITS = 3
NIP_DIGITS = 6
OFI_DIGITS = 5
LONGEST_NAME = 200
_SCHEME_DIGITS = frozenset({SERVICE_DIGITS, OFI_DIGITS, NIP_DIGITS})
_CHECKS = frozenset({"dmb", "ofi", "none"})
_COLUMNS = ("name", "aliases", "code", "other_codes", "kind", "check")
_PAIRS_KEPT = 65536
_CLOSE = 80.0
_SHORTEST_NEAR = 4

BANK_CODE_REPAIRED = Finding(
    "bank_code_repaired",
    "The bank code had lost leading zeros or gained spreadsheet marks; only one bank fits.",
    Action.REPAIRED,
)
BANK_CODE_FROM_NAME = Finding(
    "bank_code_from_name",
    "The bank code fits no bank that is known; the bank was taken from its name.",
    Action.REPAIRED,
)
BANK_CODE_FROM_ACCOUNT = Finding(
    "bank_code_from_account",
    "Without its leading zeros the code could mean two banks; the account's check digit agrees "
    "with one of them only.",
    Action.REPAIRED,
)
BANK_DISAGREES = Finding(
    "bank_disagrees",
    "The bank code and the bank name mean two banks; the code was used.",
    Action.WARNED,
)
BANK_CODE_AMBIGUOUS = Finding(
    "bank_code_ambiguous",
    "Without its leading zeros the code could mean two banks; write it in full or add the name.",
    Action.INVALID,
    Flaw.BANK,
)
BANK_CODE_MALFORMED = Finding(
    "bank_code_malformed",
    "A bank code has 3 digits (or 5 or 6 in other schemes); format the column as text.",
    Action.INVALID,
    Flaw.BANK,
)
BANK_NOT_SERVED = Finding(
    "bank_not_served",
    "This institution has no 3-digit code in data/banks.csv, so the service cannot look up "
    "accounts there.",
    Action.WARNED,
    Flaw.BANK_UNKNOWN,
)

_DROPPED = frozenset(
    ["plc", "bank", "bnk", "nigeria", "nig", "ng", "ltd", "limited", "the", "of", "inc"]
)
_WORDS = re.compile(r"[^\W_]+")
_CODE_AND_NAME = re.compile(r"\(?([0-9]{3}|[0-9]{5,6})\)?\s*[-:/,.|)\s]\s*(\D+)")
_NAME_AND_CODE = re.compile(r"(\D+?)\s*[-:/,.|(\s]\s*\(?([0-9]{3}|[0-9]{5,6})\)?")


@dataclass(frozen=True, slots=True)
class Bank:
    """One row of the table.

    Attributes:
        name: as people write it.
        aliases: other names.
        code: 3-digit central-bank code, or None where the service cannot look it up.
        other_codes: the same bank in other schemes.
        kind: `bank`, `merchant`, `microfinance`, `mortgage`, `payment_service`, `wallet`.
        check: `dmb`, `ofi` or `none`.
    """

    name: str
    aliases: tuple[str, ...]
    code: str | None
    other_codes: tuple[str, ...]
    kind: str
    check: str

    @property
    def institution(self) -> str | None:
        """Six digits for the check digit formula, or None where account numbers have none."""
        if self.check == "none":
            return None
        short = [code for code in self.other_codes if len(code) == OFI_DIGITS]
        code = self.code if self.check == "dmb" else next(iter(short), None)
        return institution_of(code) if code else None


class BankVerdict(NamedTuple):
    """The bank of a row.

    Attributes:
        code: what `bank_code` is to hold: the 3-digit code, or the text as it came.
        bank: the bank, where there is exactly one.
        candidates: the banks that fit where there are several; the account may decide.
        findings: (column, finding) pairs.
    """

    code: str | None
    bank: Bank | None = None
    candidates: tuple[Bank, ...] = ()
    findings: tuple[tuple[str, Finding], ...] = ()


class _CodeReading(NamedTuple):
    banks: tuple[Bank, ...]
    repaired: bool = False
    malformed: bool = False


class BankTable:
    """The banks that are known, found by code or name.

    Raises:
        SettingsError: two banks share a code or a name.
    """

    def __init__(self, banks: Iterable[Bank]) -> None:
        self.banks = tuple(banks)
        self._by_code: dict[str, Bank] = {}
        self._by_name: dict[str, Bank] = {}
        for bank in self.banks:
            self._enter(bank)
        self._resolved = lru_cache(maxsize=_PAIRS_KEPT)(self._resolve)

    def by_code(self, code: str) -> Bank | None:
        """Return the bank with this code, of any scheme, written in full."""
        return self._by_code.get(code)

    def by_name(self, name: str) -> Bank | None:
        """Return the bank of this name or alias; case, punctuation and BANK, PLC do not matter."""
        return self._by_name.get(folded(name))

    def nearest(self, name: str) -> str | None:
        """Return the name of the bank that is spelt most like this one, if one is near."""
        key = folded(name)
        if len(key) < _SHORTEST_NEAR:
            return None
        found = process.extractOne(
            key, self._by_name.keys(), scorer=fuzz.ratio, score_cutoff=_CLOSE
        )
        return self._by_name[found[0]].name if found else None

    def resolve(self, code: str | None, name: str | None) -> BankVerdict:
        """Return which bank a row's code and name mean; both trimmed, None where absent."""
        return self._resolved(code, name)

    def _resolve(self, code: str | None, name: str | None) -> BankVerdict:
        reading = self._read_code(code) if code else _CodeReading(())
        named = self._read_name(name) if name else None
        if len(reading.banks) > 1 and named in reading.banks:
            reading = _CodeReading((named,), repaired=True) if named else reading
        if len(reading.banks) > 1:
            return BankVerdict(code, candidates=reading.banks)
        if reading.banks:
            return self._found_by_code(code, reading, named)
        if named:
            findings = (("bank_code", BANK_CODE_FROM_NAME),) if code else ()
            return _settled(code, named, "bank_name", findings)
        if code and reading.malformed:
            return BankVerdict(code, findings=(("bank_code", BANK_CODE_MALFORMED),))
        if code or name:
            return self._unknown(code, name)
        return BankVerdict(None)

    def _found_by_code(
        self, code: str | None, reading: _CodeReading, named: Bank | None
    ) -> BankVerdict:
        bank = reading.banks[0]
        findings: list[tuple[str, Finding]] = []
        if reading.repaired:
            findings.append(("bank_code", BANK_CODE_REPAIRED))
        if named and named != bank:
            findings.append(("bank_name", BANK_DISAGREES))
        return _settled(code, bank, "bank_code", tuple(findings))

    def _read_code(self, text: str) -> _CodeReading:
        digits = bare_digits(text)
        if not (digits.isascii() and digits.isdigit()):
            bank = self._read_name(text)
            unreadable = is_scientific(text) or not any(c.isalpha() for c in text)
            return _CodeReading((bank,) if bank else (), malformed=unreadable)
        if is_absent(digits):
            return _CodeReading(())
        fits = [digits] if len(digits) in _SCHEME_DIGITS else []
        if len(digits) < SERVICE_DIGITS and digits.zfill(SERVICE_DIGITS) in self._by_code:
            fits += [digits.zfill(SERVICE_DIGITS), digits.zfill(NIP_DIGITS)]
        if len(digits) == OFI_DIGITS:
            fits.append(digits.zfill(NIP_DIGITS))
        found = {fit: self._by_code[fit] for fit in fits if fit in self._by_code}
        banks = tuple(dict.fromkeys(found.values()))
        malformed = not banks and len(digits) not in _SCHEME_DIGITS
        return _CodeReading(banks, repaired=text not in found, malformed=malformed)

    def _read_name(self, text: str) -> Bank | None:
        """Find a bank by name, by a code in the name's place, or by both in one cell."""
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
        finding = Finding("bank_unknown", hint, Action.WARNED, Flaw.BANK_UNKNOWN)
        return BankVerdict(code, findings=((column, finding),))

    def _enter(self, bank: Bank) -> None:
        for code in filter(None, (bank.code, *bank.other_codes)):
            _claim(self._by_code, code, bank, "code")
        for name in (bank.name, *bank.aliases):
            _claim(self._by_name, folded(name), bank, "name")


def folded(name: str) -> str:
    """Return a bank's name as it is compared: no case, blanks, punctuation, BANK, PLC, NIGERIA."""
    plain = name.casefold().replace("&", " and ").replace("'", "")
    words = [word for word in _WORDS.findall(plain) if word not in _DROPPED]
    joined = "".join("microfinance" if word == "mfb" else word for word in words)
    shorter = joined.removesuffix("plc").removesuffix("bank")
    return shorter or joined


def load_banks(path: Path) -> BankTable:
    """Return the table in a CSV file with the columns of `data/banks.csv`.

    Raises:
        SettingsError: the file is missing, a row is incomplete, or two banks share a name.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = [line for line in file if line.strip() and not line.startswith("#")]
    except OSError as error:
        message = f"The list of banks {path.name} cannot be read; restore data/banks.csv."
        raise SettingsError(message) from error
    reader = csv.DictReader(lines)
    if tuple(reader.fieldnames or ()) != _COLUMNS:
        raise SettingsError(f"{path.name} must have the columns {', '.join(_COLUMNS)}.")
    return BankTable([_bank(row, path) for row in reader])


@cache
def bank_table() -> BankTable:
    """Return the table of `data/banks.csv`, read once."""
    return load_banks(DATA / "banks.csv")


def _bank(row: dict[str, str], path: Path) -> Bank:
    code = (row["code"] or "").strip() or None
    others = _listed(row["other_codes"])
    check = (row["check"] or "").strip()
    digits = all(c.isascii() and c.isdigit() for c in (*others, *filter(None, (code,))))
    sound = digits and (code is None or len(code) == SERVICE_DIGITS) and check in _CHECKS
    if not (row["name"] or "").strip() or not sound:
        raise SettingsError(
            f"{path.name}: the row of {row['name'] or 'a bank without a name'} is not right: code "
            f"has 3 digits or is blank, other codes are digits, check is dmb, ofi or none."
        )
    aliases = _listed(row["aliases"])
    return Bank(row["name"].strip(), aliases, code, others, (row["kind"] or "").strip(), check)


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split("|") if part.strip())


def _claim(table: dict[str, Bank], key: str, bank: Bank, what: str) -> None:
    owner = table.setdefault(key, bank)
    if owner is not bank:
        raise SettingsError(
            f"data/banks.csv: {bank.name} and {owner.name} share a {what} ({key}); change one."
        )


def _settled(
    text: str | None, bank: Bank, column: str, findings: tuple[tuple[str, Finding], ...]
) -> BankVerdict:
    if bank.code is None:
        return BankVerdict(text, bank, findings=(*findings, (column, BANK_NOT_SERVED)))
    return BankVerdict(bank.code, bank, findings=findings)
