"""People: one stable life for every well-formed BVN, and what the service knows of it.

Pure functions, from which tests get the right answer in advance: the same identifier has the same
life on every machine and in every run. Transactions are in `sandbox.transactions`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple

from nightscreen.sandbox import test_identifiers
from nightscreen.sandbox.banks import (
    BANK_NAMES,
    BANKS_BY_WEIGHT,
    account_number,
    holder_of_serial,
    is_right_account,
    serial_of_holder,
)
from nightscreen.sandbox.banks import account_number as number_at
from nightscreen.sandbox.names import ENGLISH_MEN, ENGLISH_WOMEN, STOCKS
from nightscreen.sandbox.seeded_random import SeededRandom

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nightscreen.sandbox.test_identifiers import MagicPerson

FIRST_DAY = date(2026, 7, 1)
"""Day 0 of the simulated world: ages and dates are counted from here."""

BVN_DIGITS = 11
LINKED_PREFIX = "22"
_NATIONAL = 10  # digits of a phone number after the country's code
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_PHONE_PREFIXES = (
    *("803", "806", "813", "816", "810", "814", "903", "906", "703", "706"),
    *("802", "808", "812", "701", "708", "901", "902", "904", "805", "807"),
    *("811", "815", "705", "905", "809", "817", "818", "908", "909"),
)
_MAIL_HOSTS = ("mail.example", "post.example", "inbox.example", "letters.example")
_STATES = (
    *("Lagos", "Kano", "Rivers", "Oyo", "Kaduna", "Enugu", "Anambra", "Imo", "Edo", "Delta"),
    *("Ogun", "Osun", "Ondo", "Ekiti", "Kwara", "Kogi", "Benue", "Plateau", "Niger", "Sokoto"),
    *("Katsina", "Bauchi", "Borno", "Adamawa", "Cross River", "Akwa Ibom", "Abia", "Bayelsa"),
)
_STREETS = ("Allen Avenue", "Ahmadu Bello Way", "Aba Road", "Zik Avenue", "Ring Road", "Awka Road")


class Account(NamedTuple):
    """A person's bank account."""

    bank_code: str
    account_number: str


@dataclass(frozen=True, slots=True)
class Person:
    """One made-up life; empty text where the person has no such thing."""

    bvn: str
    first_name: str
    middle_name: str
    last_name: str
    gender: str
    date_of_birth: date
    phone: str
    email: str
    bank_code: str
    account_number: str
    marital_status: str
    state_of_origin: str
    address: str
    registered_on: date

    @property
    def account(self) -> Account:
        """The bank code and account number the person gives to a lender."""
        return Account(self.bank_code, self.account_number)


def is_digits(text: str, length: int) -> bool:
    """Return whether a text is exactly so many plain digits."""
    return len(text) == length and text.isascii() and text.isdigit()


def contact_key(contact: str) -> str:
    """Write an email or a phone number in the one form under which its owner is known."""
    text = contact.strip()
    if "@" in text:
        return text.lower()
    digits = "".join(sign for sign in text if sign.isdigit())
    if len(digits) >= _NATIONAL and text.lstrip("+0123456789 ()-.") == "":
        return f"+234{digits[-_NATIONAL:]}"
    return text


def is_phone(contact: str) -> bool:
    """Return whether a contact is a phone number in the form of `contact_key`."""
    return contact.startswith("+234") and is_digits(contact[4:], _NATIONAL)


def person_of_bvn(bvn: str) -> Person:
    """Return the person of a BVN.

    BVNs that begin with 22 are linked: looking up the person's account returns the person, except
    for the few accounts that are missing or somebody else's.

    Raises:
        ValueError: the BVN is not 11 digits.
    """
    if not is_digits(bvn, BVN_DIGITS):
        raise ValueError("a BVN has 11 digits")
    draw = SeededRandom("person", bvn)
    woman = draw.below(2) == 1
    first, middle, last = _name(draw, woman=woman)
    born = FIRST_DAY - timedelta(days=draw.between(21 * 365, 68 * 365))
    special = test_identifiers.by_bvn(bvn)
    bank_code = test_identifiers.BANK_CODE if special else draw.pick(BANKS_BY_WEIGHT)
    serial = special.serial if special else serial_of_holder(bank_code, int(bvn[2:]))
    phone = f"+234{draw.pick(_PHONE_PREFIXES)}{draw.below(10**7):07d}"
    local = _mail_name(draw, first, last)
    return Person(
        bvn=bvn,
        first_name=first,
        middle_name=middle,
        last_name=last,
        gender="Female" if woman else "Male",
        date_of_birth=born,
        phone=special.phone if special else phone,
        email=special.email if special else f"{local}@{draw.pick(_MAIL_HOSTS)}",
        bank_code=bank_code,
        account_number=account_number(bank_code, serial),
        marital_status=draw.pick(("Single", "Married", "Married", "Divorced", "Widowed")),
        state_of_origin=f"{draw.pick(_STATES)} State",
        address=f"{draw.between(1, 180)} {draw.pick(_STREETS)}",
        registered_on=FIRST_DAY - timedelta(days=draw.between(200, 4000)),
    )


def _name(draw: SeededRandom, *, woman: bool) -> tuple[str, str, str]:
    stock = STOCKS[(0, 0, 0, 1, 1, 1, 2, 2, 2, 3)[draw.below(10)]]
    given = stock.women if woman else stock.men
    english = ENGLISH_WOMEN if woman else ENGLISH_MEN
    first = draw.pick(given)
    last = draw.pick(stock.families)
    kind = draw.below(10)
    if kind < 2:  # noqa: PLR2004 - two people in ten have no middle name
        return first, "", last
    use_english = kind > 6 and stock.people != "hausa"  # noqa: PLR2004 - three in ten
    middle = draw.pick(english if use_english else given)
    return first, "" if middle == first else middle, last


def _mail_name(draw: SeededRandom, first: str, last: str) -> str:
    number = draw.below(1000)
    form = draw.below(4)
    plain = (f"{first}.{last}", f"{first}{last}{number}", f"{last}.{first}", f"{first}+{last}")
    return plain[form].lower()


def stamp(day: date, draw: SeededRandom) -> str:
    """Write a day with a drawn time of day as an ISO 8601 timestamp."""
    seconds = draw.below(86_400)
    hours, rest = divmod(seconds, 3600)
    return f"{day.isoformat()}T{hours:02d}:{rest // 60:02d}:{rest % 60:02d}.000Z"


def bank_date(day: date) -> str:
    """Write a day as DD-Mon-YYYY, the form of a registration date."""
    return f"{day.day:02d}-{MONTHS[day.month - 1]}-{day.year}"


BANK_CODE_DIGITS: Final = 3
ACCOUNT_DIGITS: Final = 10
MISSING_SHARE: Final = 0.02
OTHER_SHARE: Final = 0.03
GONE_SHARE: Final = 0.06
CHANGE_DAYS: Final = 30
"""Changes of the world happen on one of the days 1 to 30."""

_STATUSES: Final = (*(1,) * 20, 2, 2, 2, 3, 4, 5, 6, 7, 8)
"""Active, dormant, closed, post no debit, post no credit, inactive, frozen, other; most active."""
_OTPS: Final = 999_999
_OTP_STEP: Final = 100_003  # no common factor, so that passwords do not soon repeat


def holder_of(bank_code: str, account_number: str, *, day: int = 0) -> Person | None:
    """Return who holds an account, or None if there is no such account.

    Raises:
        ValueError: the bank code has not 3 digits or the account number not 10.
    """
    if not is_digits(bank_code, BANK_CODE_DIGITS):
        raise ValueError("a bank code has 3 digits")
    if not is_digits(account_number, ACCOUNT_DIGITS):
        raise ValueError("an account number has 10 digits")
    if not is_right_account(bank_code, account_number):
        return None
    special = test_identifiers.by_account(account_number)
    if special:
        return _special_holder(special)
    draw = SeededRandom("account", bank_code, account_number)
    share = draw.share()
    if share < MISSING_SHARE:
        return None
    if draw.share() < GONE_SHARE and draw.between(1, CHANGE_DAYS) <= day:
        return None
    if share < MISSING_SHARE + OTHER_SHARE:
        return person_of_bvn(f"{LINKED_PREFIX}{draw.below(10**9):09d}")
    holder = holder_of_serial(bank_code, int(account_number[:9]))
    return person_of_bvn(f"{LINKED_PREFIX}{holder:09d}")


def _special_holder(row: MagicPerson) -> Person | None:
    if row.account == "missing":
        return None
    return person_of_bvn(row.bvn if row.account == "own" else "22512345678")


def account_of(
    bank_code: str,
    account_number: str,
    *,
    day: int = 0,
    masked: bool = True,
    known: Mapping[str, Person] = {},
) -> dict[str, object] | None:
    """Return what a bank account lookup answers (service.md, "Bank account verification result").

    Args:
        bank_code: three digits.
        account_number: ten digits.
        day: of the simulated world.
        masked: only some digits of the BVN are shown.
        known: people who are otherwise than made up, by BVN.

    Returns:
        The `data` of the answer, or None where the account does not exist.
    """
    person = holder_of(bank_code, account_number, day=day)
    if person is None:
        return None
    place = Account(bank_code, account_number)
    return account_record(known.get(person.bvn, person), place, masked=masked)


def account_record(person: Person, place: Account, *, masked: bool) -> dict[str, object]:
    """Write what the service says of an account that somebody holds."""
    return {
        "bank_code": place.bank_code,
        "account_name": account_name(person, *place),
        "account_number": place.account_number,
        "bvn": masked_bvn(person.bvn) if masked else person.bvn,
    }


def masked_bvn(bvn: str) -> str:
    """Hide a BVN: first two and last two digits stay, the others are zero."""
    return f"{bvn[:2]}0000000{bvn[-2:]}"


def account_name(person: Person, bank_code: str, account_number: str) -> str:
    """Write a holder's name as this bank has it: mostly SURNAME FIRST MIDDLE in capitals."""
    first, middle, last = person.first_name, person.middle_name, person.last_name
    form = SeededRandom("account name", bank_code, account_number).below(100)
    if form < 68:  # noqa: PLR2004 - the shares of the forms
        parts = (last, first, middle)
    elif form < 80:  # noqa: PLR2004
        parts = (first, middle, last)
    elif form < 88:  # noqa: PLR2004
        parts = (last, first, "")
    elif form < 93:  # noqa: PLR2004
        parts = (f"{last},", first, middle)
    elif form < 97:  # noqa: PLR2004
        parts = (last, first, middle[:1])
    else:
        return " ".join(part for part in (first, middle, last) if part)
    return " ".join(part for part in parts if part).upper()


def contacts_of(bvn: str, person: Person | None = None) -> tuple[str, str]:
    """Return phone and email registered with a BVN, to which one-time passwords are sent."""
    person = person or person_of_bvn(bvn)
    return f"0{person.phone[4:]}", person.email


def bvn_details(bvn: str, person: Person | None = None) -> dict[str, object]:
    """Return what a finished BVN consent answers (service.md, "BVN details")."""
    person = person or person_of_bvn(bvn)
    draw = SeededRandom("bvn details", bvn)
    details: dict[str, object] = {
        "reference": draw.between(100_000, 99_999_999),
        "bvn": bvn,
        "first_name": person.first_name,
        "middle_name": person.middle_name,
        "last_name": person.last_name,
        "dob": person.date_of_birth.isoformat(),
        "mobile": f"0{person.phone[4:]}",
        "registration_date": bank_date(person.registered_on),
        "enrollment_bank": person.bank_code,
        "email": person.email,
        "gender": person.gender,
        "marital_status": person.marital_status,
        "residential_address": person.address,
        "state_of_origin": person.state_of_origin,
        "watchlisted": 1 if draw.below(100) == 0 else 0,
        "image_url": f"https://images.example/{draw.below(10**12):012d}.jpg",
    }
    return _as_magic(details, test_identifiers.by_bvn(bvn))


def _as_magic(details: dict[str, object], row: MagicPerson | None) -> dict[str, object]:
    """Correct a record where a magic BVN promises something of it."""
    if row is None:
        return details
    details["watchlisted"] = int(row.watchlisted)
    if row.incomplete:
        details.update(dict.fromkeys(("middle_name", "residential_address"), ""))
        details.update(dict.fromkeys(("email", "marital_status"), None))
        for name in ("image_url", "registration_date", "mobile"):
            del details[name]
    return details


def bvn_accounts(bvn: str, person: Person | None = None) -> list[dict[str, object]]:
    """Return what a finished BVN consent answers in its other shape, a list of bank accounts."""
    person, draw = person or person_of_bvn(bvn), SeededRandom("account type", bvn)
    places = [(person.bank_code, person.account_number)]
    for _ in range(draw.below(3)):
        code = draw.pick(BANKS_BY_WEIGHT)
        places.append((code, number_at(code, draw.below(10**9))))
    return [
        {
            "account_name": account_name(person, code, number),
            "account_number": number,
            "bank_name": BANK_NAMES.get(code, "Bank"),
            "bank_code": code,
            "account_status": draw.pick(_STATUSES),
            "account_designation": "INDIVIDUAL",
            "account_type": draw.pick(("SAVINGS", "CURRENT")),
        }
        for code, number in places
    ]


def otp_of(bvn: str, number: int = 1) -> str:
    """Return the one-time password that this customer receives."""
    first = SeededRandom("one-time password", bvn).below(_OTPS)
    return f"{(first + (number - 1) * _OTP_STEP) % _OTPS:06d}"


# How often what occurs was written down in docs/sandbox.md before any policy was tried on it, and
# is not changed to make a policy's rates come out.
LISTED_SHARE: Final = {
    "bvn": 0.03,
    "phone": 0.012,
    "email": 0.008,
    "domain": 0.01,
    "nuban": 0.01,
}
NEWLY_LISTED_SHARE: Final = 0.06
CLEARED_SHARE: Final = 0.5

_DEBTS: Final = ((1_000, 5_000), (5_000, 50_000), (5_000, 50_000), (50_000, 500_000))
"""Naira of a listed debt or of a loan past due: digital loans, half of them of middling size."""

_WORDS: Final = {
    "bvn": "BVN",
    "phone": "Phone",
    "email": "Email",
    "domain": "Domain",
    "nuban": "NUBAN",
}
_SIGN: Final = r"[A-Za-z0-9\u00a1-\uffff]"
_LABEL: Final = rf"{_SIGN}(?:[A-Za-z0-9\u00a1-\uffff-]{{0,61}}{_SIGN})?"
FORMS: Final = {
    "bvn": r"[0-9]{11}",
    "phone": r"\+234[0-9]{10}",
    "nuban": r"[0-9]{3}-[0-9]{10}",
    "email": r"[^@\x00-\x20\x7f]{1,64}@[^@\x00-\x20\x7f]{1,253}",
    "domain": rf"(?:{_LABEL}\.)+{_LABEL}",
}
"""The form of each kind of identity, in the order in which they are tried."""

_COMPILED: Final = {kind: re.compile(form) for kind, form in FORMS.items()}
_REPORTERS: Final = (
    ("Blueridge Microfinance", "risk@blueridge.example"),
    ("Quickfund Lending", "collections@quickfund.example"),
    ("Palm Credit", "support@palmcredit.example"),
    ("Harbour Finance House", "fraud@harbour.example"),
    ("Savannah Loans", "recovery@savannah.example"),
)
_REASONS: Final = (
    None,
    "Written-off loan",
    "Applied under a false identity",
    "Loan not repaid after repeated reminders",
    "Fraudulent documents",
)


def identity_kind(identity: str) -> str | None:
    """Return what an identity is by its form (service.md, "Identifier kinds accepted for lookup").

    Returns:
        `bvn`, `phone`, `nuban`, `email`, `domain`, or None for anything else. An image has no
        known transport and is none of these.
    """
    return next((kind for kind, form in _COMPILED.items() if form.fullmatch(identity)), None)


def karma_of(identity: str, *, day: int = 0) -> dict[str, object] | None:
    """Return what the blacklist holds on an identity (service.md, "Karma (blacklist) record").

    Returns:
        The `data` of the answer, or None where the identity is not listed.

    Raises:
        ValueError: the identity is of no kind that can be looked up.
    """
    kind = identity_kind(identity)
    if kind is None:
        raise ValueError("a karma identity is a BVN, phone, NUBAN, email address or domain")
    draw = SeededRandom("karma", identity)
    special = test_identifiers.by_karma_identity(identity)
    listed = special.listed if special else _is_listed(draw, kind, day)
    return karma_record(identity, kind) if listed else None


def _is_listed(draw: SeededRandom, kind: str, day: int) -> bool:
    share = draw.share()
    turning = draw.share()
    on_day = draw.between(1, CHANGE_DAYS)
    if share < LISTED_SHARE[kind]:
        return not (turning < CLEARED_SHARE and on_day <= day)
    return turning < NEWLY_LISTED_SHARE and on_day <= day


def karma_record(identity: str, kind: str) -> dict[str, object]:
    """Write the entry of an identity of a known kind, as if it were listed."""
    draw = SeededRandom("karma record", identity)
    name, email = draw.pick(_REPORTERS)
    defaulted = FIRST_DAY - timedelta(days=draw.between(60, 2500))
    kobo = draw.pick((0, 0, 0, 50))
    low, high = draw.pick(_DEBTS)
    return {
        "karma_identity": identity,
        "amount_in_contention": f"{draw.between(low, high - 1)}.{kobo:02d}",
        "reason": draw.pick(_REASONS),
        "default_date": defaulted.isoformat(),
        "karma_type": {"karma": draw.pick(("Loan default", "Fraud", "Identity theft", "Others"))},
        "karma_identity_type": {"identity_type": _WORDS[kind]},
        "reporting_entity": {"name": name, "email": email},
    }


FOUND_SHARE: Final = 0.60
FIRST_LOAN_SHARE: Final = 0.10
"""Share of unknown people whom a lender reports for the first time on some later day."""
PAST_DUE_SHARE: Final = 0.18
CENT: Final = Decimal("0.01")


class Loans(NamedTuple):
    """Counts that must agree with each other in one record."""

    settled: int
    running: int
    past_due: int
    delayed: int

    @property
    def total(self) -> int:
        """All loans ever taken; a loan past due is a running one."""
        return self.settled + self.running


def ecosystem_of(
    bvn: str,
    *,
    day: int = 0,
    person: Person | None = None,
    known: bool | None = None,
) -> dict[str, object] | None:
    """Return what the borrower history holds on a person (service.md, "Ecosystem record").

    Args:
        bvn: eleven digits.
        day: of the simulated world.
        person: its holder, if not the made-up one.
        known: whether lenders have reported the person; None: the person's life decides.

    Returns:
        The `data` of the answer, or None where no lender has reported the person.

    Raises:
        ValueError: the BVN is not 11 digits.
    """
    if not is_digits(bvn, BVN_DIGITS):
        raise ValueError("a BVN has 11 digits")
    draw = SeededRandom("ecosystem", bvn)
    special = test_identifiers.by_bvn(bvn)
    found = draw.share() < FOUND_SHARE
    first_loan_day = draw.between(1, CHANGE_DAYS) if draw.share() < FIRST_LOAN_SHARE else None
    if special:
        found = special.history != "none"
    elif not found:
        found = first_loan_day is not None and first_loan_day <= day
    if not (found if known is None else known):
        return None
    person = person or person_of_bvn(bvn)
    loans = _loans(draw, bad=special.history == "bad" if special else None)
    record = _specified(draw, person, loans, day)
    return record | _recorded(SeededRandom("ecosystem extras", bvn), person, loans, record)


def _loans(draw: SeededRandom, *, bad: bool | None) -> Loans:
    drawn_bad = draw.share() < PAST_DUE_SHARE
    is_bad = drawn_bad if bad is None else bad
    past_due = draw.between(1, 3) if is_bad else 0
    settled = draw.between(1, 14)
    running = past_due + draw.below(3)
    return Loans(settled, running, past_due, min(settled, draw.below(4)))


def _naira(draw: SeededRandom, low: int, high: int) -> Decimal:
    return Decimal(draw.between(low, high)).scaleb(2) + Decimal(draw.pick((0, 0, 0, 50)))


def _debt(draw: SeededRandom) -> Decimal:
    low, high = draw.pick(_DEBTS)
    return _naira(draw, low // 100, high // 100 - 1)


def _specified(draw: SeededRandom, person: Person, loans: Loans, day: int) -> dict[str, object]:
    today = FIRST_DAY + timedelta(days=day)
    first = FIRST_DAY - timedelta(days=draw.between(400, 2400))
    last = FIRST_DAY - timedelta(days=draw.between(3, 380))
    smallest = _naira(draw, 50, 400)
    largest = smallest + _naira(draw, 100, 4600)
    average = ((smallest + largest) / 2 + Decimal(draw.below(100)) / 100).quantize(CENT)
    born = person.date_of_birth
    return {
        "bvn": person.bvn,
        "first_name": person.first_name,
        "last_name": person.last_name,
        "date_of_birth": f"{born.isoformat()}T00:00:00.000Z",
        "age": _age(born, today),
        "lenders": min(loans.total, draw.between(1, 6)),
        "first_account": stamp(first, draw),
        "last_account": stamp(last, draw),
        "loans": loans.total,
        "loan_amount_minimum": smallest,
        "loan_amount_maximum": largest,
        "loan_amount_average": average,
        "settled_loans": loans.settled,
        "running_loans": loans.running,
        "past_due_loans": loans.past_due,
        "delayed_paid_loans": loans.delayed,
        "past_due_loan_amount_due": _debt(draw) * loans.past_due,
        "logins": draw.between(1, 400),
        "first_login": stamp(first, draw),
        "last_login": stamp(last, draw),
        "credit_delinquency": loans.past_due + (1 if loans.delayed else 0),
        "processed_on": stamp(today, draw),
    }


def _age(born: date, today: date) -> int:
    had_birthday = (today.month, today.day) >= (born.month, born.day)
    return today.year - born.year - (0 if had_birthday else 1)


def _recorded(
    draw: SeededRandom, person: Person, loans: Loans, specified: dict[str, object]
) -> dict[str, object]:
    """Fill the fields that were recorded beside the specified ones."""
    average = int(str(specified["loan_amount_average"]).partition(".")[0])
    settled, running = average * loans.settled, average * loans.running
    requests = loans.total + draw.below(9)
    trials = [draw.between(1, 6) for _ in range(loans.delayed)]
    penalty = draw.below(40) * 500 if loans.delayed or loans.past_due else 0
    devices = draw.between(1, 5)
    return {
        "bvn_phone_number": f"0{person.phone[4:]}",
        "unique_phone_numbers": draw.between(1, 3),
        "phone_number": f"0{person.phone[4:]}",
        "unique_emails": draw.between(1, 2),
        "email": person.email,
        "gender": person.gender,
        "failed_selfie_bvn_check": draw.pick((0, 0, 0, 0, 1, 2)),
        "lending_lenders": specified["lenders"],
        "loan_amount": settled + running,
        "settled_loan_amount": settled,
        "settled_loan_amount_paid": settled + penalty,
        "running_loan_amount": running,
        "past_due_loan_amount": average * loans.past_due,
        "penalty": penalty,
        "penalty_paid": 0 if loans.past_due else penalty,
        "delayed_paid_loan_amount": average * loans.delayed,
        "delayed_paid_loans_trials": sum(trials),
        "delayed_paid_loans_avg": (Decimal(sum(trials)) / max(1, len(trials))).quantize(CENT),
        "delayed_paid_loans_trials_max": max(trials, default=0),
        "delayed_paid_loans_trials_min": min(trials, default=0),
        "first_loan_date": specified["first_account"],
        "last_loan_date": specified["last_account"],
        "loan_requests": requests,
        "failed_loan_requests": requests - loans.total,
        "unique_login_ips": draw.between(1, 40),
        "unique_device_ids": devices,
        "distinct_mobile_os": min(devices, draw.between(1, 2)),
        "duplicated_devices": draw.pick((0, 0, 0, 1, 2)),
        "shared_device_users": draw.pick((0, 0, 0, 0, 1, 3)),
    }


MATCH_FROM: Final = 80
"""The service's own line between match and no match; the caller sets another (rule 2)."""

_RANGES: Final = {"match": (86, 100), "unsure": (60, 80), "no_match": (2, 45)}


def selfie_of(bvn: str, image_url: str) -> dict[str, object] | None:
    """Return what an image match answers (service.md, "BVN image match result").

    Returns:
        The `data` of the answer, or None where there is no such BVN record.

    Raises:
        ValueError: the BVN is not 11 digits.
    """
    person_of_bvn(bvn)
    draw = SeededRandom("likeness", bvn, image_url)
    special = test_identifiers.by_bvn(bvn)
    chance = draw.below(100)
    kind = "match" if chance < 92 else "unsure" if chance < 96 else "no_match"  # noqa: PLR2004
    kind = special.likeness if special else kind
    if kind == "unknown":
        return None
    low, high = _RANGES[kind]
    similarity = Decimal(low * 10_000 + draw.below((high - low) * 10_000)) / 10_000
    return {"match": similarity >= MATCH_FROM, "similarity": similarity}
