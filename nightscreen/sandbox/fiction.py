"""Material for made-up lives: repeatable draws, words, banks and account numbers.

The words are in `fiction.toml`. Other modules decide who gets which, and how often. The service's
own tables are in `service.toml`.
"""

from __future__ import annotations

import tomllib
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")


def _tables(name: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(name).read_text("utf-8"))


FICTION: Final = _tables("fiction.toml")
SERVICE: Final = _tables("service.toml")
ENGLISH: Final = {kind: words.split() for kind, words in FICTION["english"].items()}
"""Given names by `men` and `women`, which people of several parts of the country bear."""


class NameStock(NamedTuple):
    """The names of one people."""

    people: str
    men: list[str]
    women: list[str]
    families: list[str]


STOCKS: Final = tuple(
    NameStock(people, *(stock[kind].split() for kind in ("men", "women", "families")))
    for people, stock in FICTION["names"].items()
)

# --- draws ---

_BITS = 512
_SPARE = 1 << 64
_FINE = 1 << 30


class SeededRandom:
    """A stream of numbers that depends on nothing but the words it was made from."""

    __slots__ = ("_left", "_turn", "_words")

    def __init__(self, *words: str) -> None:
        self._words = "\x1f".join(words).encode("utf-8", "surrogatepass")
        self._turn = 0
        self._left = int.from_bytes(blake2b(self._words).digest(), "big")

    def below(self, bound: int) -> int:
        """Draw a whole number from 0 up to, not including, `bound`."""
        if self._left < bound * _SPARE:
            self._turn += 1
            more = blake2b(self._words, salt=self._turn.to_bytes(16, "big")).digest()
            self._left = (self._left << _BITS) | int.from_bytes(more, "big")
        self._left, number = divmod(self._left, bound)
        return number

    def between(self, low: int, high: int) -> int:
        """Draw a whole number from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def share(self) -> float:
        """Draw a fraction from 0 up to, not including, 1."""
        return self.below(_FINE) / _FINE

    def pick(self, choices: Sequence[T]) -> T:
        """Draw one of `choices`, each as likely as the others."""
        return choices[self.below(len(choices))]


# --- banks ---

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


def drawn_account(draw: SeededRandom) -> tuple[str, str]:
    """Draw a bank's code and the number of an account there."""
    code = draw.pick(BANKS_BY_WEIGHT)
    return code, account_number(code, draw.below(SERIALS))
