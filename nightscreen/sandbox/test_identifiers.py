"""Test identifiers: values that determine their outcome or fault, in two tables.

Every row of the first has a two-digit code. The same code makes a BVN (`229990000` and the code), a
phone (`+23480999000` and the code), an account number (`9990000` and the code, then the check digit
of the bank), and the row's word makes an email (`<word>@magic.example`) and a domain
(`<word>.magic.example`). They all belong to one made-up person. The second table is of area A: a
customer who signs in as `<word>@magic.example`; the words of the fault rows work there too. What
happens to each is told in `docs/sandbox.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from nightscreen.sandbox.faults import FAULTS
from nightscreen.sandbox.fiction import account_number

BANK_CODE: Final = "058"
MAIL: Final = "@magic.example"
_DOMAIN: Final = ".magic.example"
_BVN: Final = "229990000"
_PHONE: Final = "+23480999000"
_SERIAL: Final = "9990000"
_BVN_LENGTH: Final = 11


@dataclass(frozen=True, slots=True)
class MagicPerson:
    """One row of the first table: a made-up person, and what is unusual about them."""

    code: int  # the two digits at the end of the row's BVN, phone and account serial
    word: str  # in the row's email and domain
    listed: bool = False  # on the blacklist
    account: str = "own"  # or `other` (somebody else holds it) or `missing`
    history: str = "good"  # or `bad` or `none`
    likeness: str = "match"  # or `no_match`, `unsure` or `unknown`
    bvn_known: bool = True  # whether BVN consent can be started
    finish: str = ""  # shape of the finished BVN consent; empty takes the switch `bvn_finish`
    fault: str = ""  # name of a fault of `sandbox.faults`
    only: str = ""  # the one operation that meets the fault; empty for all
    otp: str = ""  # `late`, `never` or `unreachable` where the password does not arrive in time
    watchlisted: bool = False
    incomplete: bool = False  # whether the BVN record lacks fields
    loan: str = "approved"  # fate of a loan: see `loan_book.fate_of`

    @property
    def bvn(self) -> str:
        """The row's BVN."""
        return f"{_BVN}{self.code:02d}"

    @property
    def phone(self) -> str:
        """The row's phone, in the form the blacklist takes."""
        return f"{_PHONE}{self.code:02d}"

    @property
    def email(self) -> str:
        """The row's email address."""
        return self.word + MAIL

    @property
    def domain(self) -> str:
        """The row's domain name."""
        return self.word + _DOMAIN

    @property
    def serial(self) -> int:
        """The first nine digits of the row's account number, at any bank."""
        return int(f"{_SERIAL}{self.code:02d}")

    @property
    def account_number(self) -> str:
        """The row's account number at bank 058."""
        return account_number(BANK_CODE, self.serial)

    def fault_at(self, operation: str, _attempt: int) -> str:
        """Name the fault that a call meets, empty for none."""
        return self.fault if self.only in ("", operation) else ""


TABLE: Final = (
    MagicPerson(0, "clear"),
    MagicPerson(1, "listed", listed=True),
    MagicPerson(2, "mismatch", account="other"),
    MagicPerson(3, "missing-account", account="missing"),
    MagicPerson(4, "history", history="bad"),
    MagicPerson(5, "no-history", history="none"),
    MagicPerson(6, "no-match", likeness="no_match"),
    MagicPerson(7, "unsure", likeness="unsure"),
    MagicPerson(
        *(8, "nobody"), account="missing", history="none", likeness="unknown", bvn_known=False
    ),
    MagicPerson(9, "accounts", finish="accounts"),
    MagicPerson(40, "otp-never", otp="never"),
    MagicPerson(41, "otp-late", otp="late"),
    MagicPerson(42, "unreachable", otp="unreachable"),
    MagicPerson(43, "details", finish="details"),
    MagicPerson(44, "watchlisted", watchlisted=True),
    MagicPerson(45, "incomplete", incomplete=True),
    MagicPerson(46, "finish-in-doubt", fault="cut_after_charge", only="bvn_finish"),
    MagicPerson(47, "start-in-doubt", fault="cut_after_charge", only="bvn_start"),
    MagicPerson(48, "together", finish="together"),
    MagicPerson(50, "loan-rejected", loan="rejected"),
    MagicPerson(51, "loan-running", loan="running"),
    MagicPerson(52, "loan-never", loan="never"),
    MagicPerson(53, "loan-cancelled", loan="cancelled"),
    MagicPerson(54, "loan-stuck", loan="stuck"),
    # a fault's row is listed and has a bad history, so that what comes after the work is charged
    *(
        MagicPerson(number, name.replace("_", "-"), listed=True, history="bad", fault=name)
        for number, name in enumerate(FAULTS, 10)
    ),
)
"""Codes from 0 choose outcomes, from 10 faults, from 40 BVN consents, from 50 loans."""

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


class MagicCustomer(NamedTuple):
    """One row of the table of area A: what goes wrong for who signs in under its word."""

    word: str  # in the customer's username; empty for ordinary ones
    fault: str = ""  # name of a fault of `sandbox.faults`
    attempts: int = 0  # how many attempts at the token operation meet it; 0: all at data operations

    @property
    def customer(self) -> str:
        """The row's username."""
        return self.word + MAIL

    def fault_at(self, operation: str, attempt: int) -> str:
        """Name the fault that a call meets, empty for none."""
        meets = bool(self.attempts) is (operation == "aggregator_auth")
        return self.fault if meets and (not self.attempts or attempt <= self.attempts) else ""


CUSTOMERS: Final = (
    *map(MagicCustomer, ("state-changed", "state-lost", "scope-missing", "code-used")),
    *map(MagicCustomer, ("code-expired", "refresh-revoked", "never-valid")),
    MagicCustomer("exchange-lost", "cut_after_charge", 1),
    MagicCustomer("auth-fails-twice", "http_503", 2),
    *map(MagicCustomer, ("malformed-record", "ten-thousand", "no-transactions", "short-answer")),
    *map(MagicCustomer, ("empty-answer", "null-answer", "no-ids", "twins", "repeats", "shuffled")),
    *map(MagicCustomer, ("number-amounts", "extra-fields", "list-elsewhere", "renamed-fields")),
)
_CUSTOMERS: Final = {
    **{row.word: MagicCustomer(row.word, row.fault) for row in TABLE if row.fault and not row.only},
    **{row.word: row for row in CUSTOMERS},
}
_ORDINARY: Final = MagicCustomer("")


def by_customer(customer: str) -> MagicCustomer:
    """Return the row a username belongs to, here or among the faults; most are ordinary."""
    word = customer.removesuffix(MAIL) if customer.endswith(MAIL) else ""
    return _CUSTOMERS.get(word, _ORDINARY)
