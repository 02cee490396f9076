"""Magic identifiers: values that choose their own outcome or fault, in one table.

The table and the way to recognise its identifiers live here. What the outcomes look like is
told by the modules that answer; how the faults are done, by `sandbox.faults`.

Every row has a two-digit code. The same code makes a BVN (`229990000` and the code), a phone
(`+23480999000` and the code), an account number (`9990000` and the code, then the check digit of
the bank), and the row's word makes an email (`<word>@magic.example`) and a domain
(`<word>.magic.example`). One made-up person bears them all.
"""

from __future__ import annotations

from dataclasses import dataclass

from nightscreen.sandbox.banks import account_number

BANK_CODE = "058"
_BVN = "229990000"
_PHONE = "+23480999000"
_SERIAL = "9990000"
_MAIL = "@magic.example"
_DOMAIN = ".magic.example"
_BVN_LENGTH = 11
_PHONE_LENGTH = 14
_ONCE = 50


@dataclass(frozen=True, slots=True)
class Magic:
    """One row of the table.

    Attributes:
        code: the two digits at the end of the row's BVN, phone and account serial.
        word: the word in the row's email and domain.
        meaning: what happens, for people.
        listed: whether the blacklist has an entry.
        account: `own`, `other` (somebody else holds it) or `missing`.
        history: `good`, `bad` or `none`.
        likeness: `match`, `no_match`, `unsure` or `unknown`.
        bvn_known: whether BVN consent can be started.
        finish: shape of the finished BVN consent, `details`, `accounts`, `together` or empty for
            the default.
        fault: name of a fault of `sandbox.faults`, or empty.
        once: whether only the first attempt of each operation meets the fault.
        only: the one operation that meets the fault; empty where all do.
        otp: how one-time passwords fare, a word of `sandbox.passwords.DELIVERIES` or empty for
            the manner's.
        watchlisted: whether the BVN record says so.
        incomplete: whether the BVN record lacks fields.
        loan: fate of a loan offered to this email or phone, a word of `sandbox.loans.FATES`.
    """

    code: int
    word: str
    meaning: str
    listed: bool = False
    account: str = "own"
    history: str = "good"
    likeness: str = "match"
    bvn_known: bool = True
    finish: str = ""
    fault: str = ""
    once: bool = False
    only: str = ""
    otp: str = ""
    watchlisted: bool = False
    incomplete: bool = False
    loan: str = "approved"

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
        return self.word + _MAIL

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


_OUTCOMES = (
    Magic(0, "clear", "nothing against this person: clear, verified, good history, face matches"),
    Magic(
        1, "listed", "on the blacklist by every identifier; everything else is good", listed=True
    ),
    Magic(2, "mismatch", "the account belongs to another person", account="other"),
    Magic(3, "missing-account", "the account does not exist", account="missing"),
    Magic(4, "history", "borrower history with loans past due", history="bad"),
    Magic(5, "no-history", "unknown to the borrower history", history="none"),
    Magic(6, "no-match", "the photograph shows somebody else", likeness="no_match"),
    Magic(7, "unsure", "the photograph may or may not show the person", likeness="unsure"),
    Magic(
        8,
        "nobody",
        "nothing is known anywhere: clear, no account, no history, no BVN record",
        account="missing",
        history="none",
        likeness="unknown",
        bvn_known=False,
    ),
    Magic(9, "accounts", "BVN consent ends with a list of bank accounts", finish="accounts"),
)
_CONSENTS = (
    Magic(40, "otp-never", "the one-time password of BVN consent never arrives", otp="never"),
    Magic(41, "otp-late", "it arrives when it has expired, unless times are set", otp="late"),
    Magic(42, "unreachable", "BVN consent cannot be started: 400, contact lost", otp="unreachable"),
    Magic(43, "details", "BVN consent ends with the details, always", finish="details"),
    Magic(44, "watchlisted", "the BVN record is on the watch list", watchlisted=True),
    Magic(45, "incomplete", "the BVN record lacks fields, or has them empty", incomplete=True),
    Magic(
        46,
        "finish-in-doubt",
        "BVN consent: the finish is charged, then the connection is cut",
        fault="cut_after_charge",
        only="bvn_finish",
    ),
    Magic(
        47,
        "start-in-doubt",
        "BVN consent: the password is sent, then the connection is cut",
        fault="cut_after_charge",
        only="bvn_start",
    ),
    Magic(48, "together", "BVN consent ends with details and accounts", finish="together"),
)

_LOANS = (
    Magic(50, "loan-rejected", "a loan is applied for and turned down", loan="rejected"),
    Magic(51, "loan-running", "has a running loan already, so does not apply", loan="running"),
    Magic(52, "loan-never", "never fills in the loan form", loan="never"),
    Magic(53, "loan-cancelled", "applies for a loan, then cancels it", loan="cancelled"),
    Magic(54, "loan-stuck", "applies for a loan that is never decided", loan="stuck"),
    Magic(55, "loan-existing", "has a login from an earlier loan, and applies", loan="existing"),
)

_FAULTS: tuple[tuple[str, str], ...] = (
    ("slow", "the right answer, seconds late"),
    ("http_429", "429 with Retry-After, not charged"),
    ("http_500", "500 as JSON, not charged"),
    ("http_502", "502 as an HTML page, not charged"),
    ("http_503", "503 as an HTML page, not charged"),
    ("http_504", "504 as plain text, not charged"),
    ("cut_before_charge", "the connection is cut, nothing sent, not charged"),
    ("cut_after_charge", "the connection is cut, nothing sent, charged"),
    ("truncated", "charged; the body stops in the middle and the connection is cut"),
    ("unreadable", "charged; status 200 with a body that is not JSON"),
    ("no_data", "status 200, an envelope without data, not charged"),
    ("timeout", "charged, then silence until the connection is cut"),
    ("timeout_before_charge", "silence until the connection is cut, not charged"),
    ("http_500_after_charge", "charged, then 500 as JSON"),
    ("http_502_after_charge", "charged, then 502 as an HTML page"),
    ("http_504_after_charge", "charged, then 504 as plain text"),
    ("mock_response", "a test-mode answer: the sample record with mock-response, not charged"),
    ("empty_object", "a test-mode answer: 200 with {}, not charged"),
    ("denied", "403, this key has no right to the operation"),
    ("unpriced", "500, the operation has no price for this account"),
    ("low_wallet", "402, the wallet is too low, whatever it holds"),
    ("foreign_404", "404 as an HTML page, not one of the service's own"),
    ("redirect", "302 to another address"),
    ("huge", "charged; a valid answer of several megabytes"),
)


def _faulty(code: int, fault: str, meaning: str, *, once: bool) -> Magic:
    word = fault.replace("_", "-")
    tail = "; the next attempt finds a listed person with bad history" if once else ""
    return Magic(
        code=code,
        word=f"once-{word}" if once else word,
        meaning=("the first attempt only: " if once else "") + meaning + tail,
        listed=True,
        history="bad",
        fault=fault,
        once=once,
    )


TABLE: tuple[Magic, ...] = (
    *_OUTCOMES,
    *_CONSENTS,
    *_LOANS,
    *(_faulty(10 + n, fault, text, once=False) for n, (fault, text) in enumerate(_FAULTS)),
    *(_faulty(10 + _ONCE + n, fault, text, once=True) for n, (fault, text) in enumerate(_FAULTS)),
)
"""Codes from 0 choose outcomes, from 10 faults, from 40 BVN consents, from 50 loans, and from 60
the same faults at the first attempt only."""

_BY_CODE = {f"{row.code:02d}": row for row in TABLE}
_BY_WORD = {row.word: row for row in TABLE}
_NOBODY = _BY_WORD["nobody"]


def by_word(word: str) -> Magic:
    """Find a row by its word.

    Raises:
        KeyError: the table has no such word.
    """
    return _BY_WORD[word]


def by_bvn(bvn: str) -> Magic | None:
    """Find the row a BVN belongs to; one digit eleven times over belongs to nobody."""
    if len(bvn) != _BVN_LENGTH:
        return None
    if bvn.startswith(_BVN):
        return _BY_CODE.get(bvn[-2:])
    return _NOBODY if bvn == bvn[0] * _BVN_LENGTH else None


def by_account(number: str) -> Magic | None:
    """Find the row an account number belongs to, whatever the bank."""
    return _BY_CODE.get(number[7:9]) if number.startswith(_SERIAL) else None


def by_karma_identity(identity: str) -> Magic | None:
    """Find the row that any kind of blacklist identity belongs to."""
    if identity.startswith(_PHONE) and len(identity) == _PHONE_LENGTH:
        return _BY_CODE.get(identity[-2:])
    if identity.endswith(_MAIL):
        return _BY_WORD.get(identity[: -len(_MAIL)])
    if identity.endswith(_DOMAIN):
        return _BY_WORD.get(identity[: -len(_DOMAIN)])
    bank_code, dash, number = identity.partition("-")
    return by_account(number) if dash and bank_code.isdigit() else by_bvn(identity)
