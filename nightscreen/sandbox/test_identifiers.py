"""Test identifiers: values that determine their outcome or fault, in two tables of `service.toml`.

Every row of the first has a two-digit code. The same code makes a BVN (`229990000` and the code), a
phone (`+23480999000` and the code), an account number (`9990000` and the code, then the check digit
of the bank), and the row's word makes an email (`<word>@magic.example`) and a domain
(`<word>.magic.example`). They all belong to one made-up person. The second table is of area A: a
customer who signs in as `<word>@magic.example`; the words of the fault rows work there too. What
happens to each is told in `docs/sandbox.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any, Final

from nightscreen.sandbox.faults import FAULTS
from nightscreen.sandbox.fiction import SERVICE, account_number

BANK_CODE: Final = "058"
_AUTH: Final = "aggregator_auth"
_BVN_LENGTH: Final = 11


@dataclass(frozen=True, slots=True)
class MagicCustomer:
    """One row of the table of area A: what goes wrong for who signs in under its word."""

    word: str  # in the row's email; empty for ordinary customers
    fault: str = ""  # name of a fault of `sandbox.faults`
    only: str = ""  # the one operation that meets it; empty for all but the token operation
    times: float = inf  # how often it is met

    @property
    def email(self) -> str:
        """The row's email address, which is its username too."""
        return f"{self.word}@magic.example"

    def fault_at(self, operation: str, attempt: int) -> str:
        """Name the fault that a call meets, empty for none."""
        meets = operation == self.only if self.only else operation != _AUTH
        return self.fault if meets and attempt <= self.times else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MagicPerson(MagicCustomer):
    """One row of the first table: a made-up person, and what is unusual about them."""

    bvn: str
    phone: str  # in the form the blacklist takes
    domain: str
    serial: int  # the first nine digits of the account number, at any bank
    account_number: str  # at bank 058
    listed: bool = False  # on the blacklist
    account: str = "own"  # or `other` (somebody else holds it) or `missing`
    history: str = "good"  # or `bad` or `none`
    likeness: str = "match"  # or `no_match`, `unsure` or `unknown`
    bvn_known: bool = True  # whether BVN consent can be started
    finish: str = ""  # shape of the finished BVN consent; empty takes the switch `bvn_finish`
    otp: str = ""  # `late`, `never` or `unreachable` where the password does not arrive in time
    watchlisted: bool = False
    incomplete: bool = False  # whether the BVN record lacks fields
    loan: str = "approved"  # fate of a loan: see `loan_book.fate_of`


def _person(word: str, code: int, **unusual: Any) -> MagicPerson:  # noqa: ANN401 - fields of a row
    """Make a row; its code is the two digits at the end of its BVN, phone and account serial."""
    serial = int(f"9990000{code:02d}")
    return MagicPerson(
        word,
        bvn=f"229990000{code:02d}",
        phone=f"+23480999000{code:02d}",
        domain=f"{word}.magic.example",
        serial=serial,
        account_number=account_number(BANK_CODE, serial),
        **unusual,
    )


TABLE: Final = (
    *(_person(word, **row) for word, row in SERVICE["magic_people"].items()),
    # a fault's row is listed and has a bad history, so that what comes after the work is charged
    *(
        _person(name.replace("_", "-"), code, listed=True, history="bad", fault=name)
        for code, name in enumerate(FAULTS, 10)
    ),
)

_BY_WORD: Final = {row.word: row for row in TABLE}
_BY_SERIAL: Final = {f"{row.serial:09d}": row for row in TABLE}
_BY_IDENTITY: Final = {
    identity: row for row in TABLE for identity in (row.bvn, row.phone, row.email, row.domain)
}


def by_word(word: str) -> MagicPerson:
    """Find a row by its word.

    Raises:
        KeyError: the table has no such word.
    """
    return _BY_WORD[word]


def by_bvn(bvn: str) -> MagicPerson | None:
    """Find the row a BVN belongs to; one digit eleven times over belongs to nobody."""
    if len(bvn) == _BVN_LENGTH and bvn == bvn[0] * _BVN_LENGTH:
        return _BY_WORD["nobody"]
    return _BY_IDENTITY.get(bvn)


def by_account(number: str) -> MagicPerson | None:
    """Find the row an account number belongs to, whatever the bank."""
    return _BY_SERIAL.get(number[:9])


def by_karma_identity(identity: str) -> MagicPerson | None:
    """Find the row that any kind of blacklist identity belongs to."""
    bank_code, _, number = identity.partition("-")
    return by_account(number) if number and bank_code.isdigit() else by_bvn(identity)


CUSTOMERS: Final = tuple(
    MagicCustomer(word, **row) for word, row in SERVICE["magic_customers"].items()
)
_BY_EMAIL: Final[dict[str, MagicCustomer]] = {row.email: row for row in (*TABLE, *CUSTOMERS)}
_ORDINARY: Final = MagicCustomer("")


def by_customer(customer: str) -> MagicCustomer:
    """Return the row a username belongs to, in either table; most are ordinary."""
    return _BY_EMAIL.get(customer, _ORDINARY)
