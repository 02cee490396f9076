"""Banks, account numbers and the link between a BVN and its accounts.

The check digit and the one-to-one link live here. Who holds an account is reported by
`sandbox.people`.
"""

from __future__ import annotations

from hashlib import blake2b

# Three-digit central-bank codes, the large banks repeated so that they are drawn more often.
BANK_NAMES: dict[str, str] = {
    "011": "First Bank of Nigeria",
    "023": "Citibank Nigeria",
    "032": "Union Bank of Nigeria",
    "033": "United Bank for Africa",
    "035": "Wema Bank",
    "044": "Access Bank",
    "050": "Ecobank Nigeria",
    "057": "Zenith Bank",
    "058": "Guaranty Trust Bank",
    "068": "Standard Chartered Bank",
    "070": "Fidelity Bank",
    "076": "Polaris Bank",
    "082": "Keystone Bank",
    "101": "Providus Bank",
    "214": "First City Monument Bank",
    "215": "Unity Bank",
    "221": "Stanbic IBTC Bank",
    "232": "Sterling Bank",
    "301": "Jaiz Bank",
}
BANKS_BY_WEIGHT: tuple[str, ...] = (
    *("011",) * 6,
    *("033",) * 6,
    *("044",) * 7,
    *("057",) * 6,
    *("058",) * 7,
    *("070",) * 3,
    *("214",) * 3,
    *("050",) * 2,
    *("032",) * 2,
    *("232",) * 2,
    *("035", "068", "076", "082", "101", "215", "221", "301", "023"),
)
WALLET_BANKS = frozenset({"305"})
"""Codes whose account numbers are phone numbers and carry no check digit."""

SERIALS = 10**9
_WEIGHTS = (3, 7, 3) * 4
_FACTOR = 387_420_489  # a power of three: shares no factor with a power of ten
_INVERSE = pow(_FACTOR, -1, SERIALS)


def check_digit(bank_code: str, serial: str) -> str:
    """Compute the last digit of an account number by the old formula for 3-digit bank codes."""
    total = sum(
        int(digit) * weight for digit, weight in zip(bank_code + serial, _WEIGHTS, strict=True)
    )
    return str(-total % 10)


def account_number(bank_code: str, serial: int) -> str:
    """Write a serial as the ten digits of an account at a bank, check digit last."""
    digits = f"{serial:09d}"
    return digits + check_digit(bank_code, digits)


def is_right_account(bank_code: str, number: str) -> bool:
    """Return whether ten digits can be an account at this bank: the check digit must agree."""
    return bank_code in WALLET_BANKS or check_digit(bank_code, number[:9]) == number[9]


def _shift(bank_code: str) -> int:
    digest = blake2b(b"serials of " + bank_code.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % SERIALS


def serial_of_holder(bank_code: str, holder: int) -> int:
    """Map the last nine digits of a BVN to the serial of that person's account at a bank."""
    return (holder * _FACTOR + _shift(bank_code)) % SERIALS


def holder_of_serial(bank_code: str, serial: int) -> int:
    """Map an account serial at a bank back to the last nine digits of its holder's BVN."""
    return (serial - _shift(bank_code)) * _INVERSE % SERIALS
