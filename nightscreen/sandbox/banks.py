"""Banks, account numbers and the link between a BVN and its accounts.

This module computes the check digit and the one-to-one link; `people` decides who holds an account.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from nightscreen.sandbox.fiction import FICTION

BANK_NAMES: Final[dict[str, str]] = {code: name for code, (name, _) in FICTION["banks"].items()}
"""Names by three-digit central-bank code."""
BANKS_BY_WEIGHT: Final[tuple[str, ...]] = tuple(
    code for code, (_, weight) in FICTION["banks"].items() for _ in range(weight)
)
"""Codes to draw from, repeated by frequency."""
WALLET_BANKS: Final = frozenset({"305"})
"""Codes whose account numbers are phone numbers and carry no check digit."""

SERIALS: Final = 10**9
_WEIGHTS = (3, 7, 3) * 4
_FACTOR = 387_420_489  # a power of three: shares no factor with a power of ten
_INVERSE = pow(_FACTOR, -1, SERIALS)


def account_number(bank_code: str, serial: int) -> str:
    """Write a serial as the ten digits of an account at a bank, check digit last (old formula)."""
    digits = f"{serial:09d}"
    weighted = zip(bank_code + digits, _WEIGHTS, strict=True)
    return digits + str(-sum(int(digit) * weight for digit, weight in weighted) % 10)


def is_right_account(bank_code: str, number: str) -> bool:
    """Return whether ten digits can be an account at this bank: the check digit must agree."""
    return bank_code in WALLET_BANKS or account_number(bank_code, int(number[:9])) == number


def _shift(bank_code: str) -> int:
    digest = blake2b(b"serials of " + bank_code.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % SERIALS


def serial_of_holder(bank_code: str, holder: int) -> int:
    """Map the last nine digits of a BVN to the serial of that person's account at a bank."""
    return (holder * _FACTOR + _shift(bank_code)) % SERIALS


def holder_of_serial(bank_code: str, serial: int) -> int:
    """Map an account serial at a bank back to the last nine digits of its holder's BVN."""
    return (serial - _shift(bank_code)) * _INVERSE % SERIALS
