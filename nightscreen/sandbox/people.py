"""People: one stable life for every well-formed BVN, and what the service knows of it.

Pure functions, from which tests get the right answer in advance: the same identifier has the same
life on every machine and in every run. A `day` is that of the simulated world, a `data` the record
of an answer, money in it `Decimal` naira. Transactions are in `sandbox.transactions`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Annotated, ClassVar, Final

from pydantic import ConfigDict, Field

from nightscreen.sandbox import fiction, test_identifiers
from nightscreen.sandbox.fiction import (
    BANK_NAMES,
    BANKS_BY_WEIGHT,
    ENGLISH,
    FICTION,
    STOCKS,
    SeededRandom,
    drawn_account,
)

Record = dict[str, object]

FIRST_DAY: Final = date(2026, 7, 1)
"""Day 0 of the simulated world: ages and dates are counted from here."""
BVN_DIGITS: Final = 11
BANK_CODE_DIGITS: Final = 3
ACCOUNT_DIGITS: Final = 10
LINKED_PREFIX: Final = "22"
WORLD_CHANGE_DAYS: Final = 30  # changes of the world happen on one of the days 1 to 30
MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

# How often what occurs was written down in docs/sandbox.md before any policy was tried on it, and
# is not changed to make a policy's rates come out.
LISTED_SHARE: Final = {"bvn": 0.03, "phone": 0.012, "email": 0.008, "domain": 0.01, "nuban": 0.01}
NEWLY_LISTED_SHARE: Final = 0.06
CLEARED_SHARE: Final = 0.5
FOUND_SHARE: Final = 0.60
FIRST_LOAN_SHARE: Final = 0.10  # of unknown people, on some later day
PAST_DUE_SHARE: Final = 0.18
MISSING_SHARE: Final = 0.02
OTHER_SHARE: Final = 0.03
ACCOUNT_GONE_SHARE: Final = 0.06
MATCH_FROM: Final = 80
"""The service's own line between match and no match; the caller sets another (rule 2)."""

_NATIONAL: Final = 10  # digits of a phone number after the country's code
_CENT: Final = Decimal("0.01")
_WORDS: Final = FICTION["people"]
_STATUSES: Final = (*(1,) * 20, 2, 2, 2, 3, 4, 5, 6, 7, 8)
"""Active, dormant, closed, post no debit, post no credit, inactive, frozen, other; most active."""
_OTPS: Final = 999_999
_OTP_STEP: Final = 100_003  # no common factor, so that passwords do not soon repeat
_DEBTS: Final = ((1_000, 5_000), (5_000, 50_000), (5_000, 50_000), (50_000, 500_000))
"""Naira of a listed debt or of a loan past due: digital loans, half of them of middling size."""
_LIKENESS: Final = {"match": (86, 100), "unsure": (60, 80), "no_match": (2, 45)}

_SIGN: Final = r"[A-Za-z0-9\u00a1-\uffff]"
_LABEL: Final = rf"{_SIGN}(?:[A-Za-z0-9\u00a1-\uffff-]{{0,61}}{_SIGN})?"
_FORMS: Final = {
    "bvn": ("BVN", re.compile(r"[0-9]{11}")),
    "phone": ("Phone", re.compile(r"\+234[0-9]{10}")),
    "nuban": ("NUBAN", re.compile(r"[0-9]{3}-[0-9]{10}")),
    "email": ("Email", re.compile(r"[^@\x00-\x20\x7f]{1,64}@[^@\x00-\x20\x7f]{1,253}")),
    "domain": ("Domain", re.compile(rf"(?:{_LABEL}\.)+{_LABEL}")),
}
"""Word and form of each kind of identity, in the order in which they are tried."""


Text = Annotated[str, Field(min_length=1, strict=True)]
Bvn = Annotated[str, Field(pattern=r"^[0-9]{11}$")]
BankCode = Annotated[str, Field(pattern=r"^[0-9]{3}$")]
AccountNumber = Annotated[str, Field(pattern=r"^[0-9]{10}$")]


@dataclass(frozen=True, slots=True)
class Person:
    """One made-up life, or a planted one."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    bvn: Bvn
    first_name: Text
    middle_name: str  # empty for none
    last_name: Text
    gender: Text
    date_of_birth: date
    phone: Text
    email: Text
    bank_code: BankCode
    account_number: AccountNumber
    marital_status: Text
    state_of_origin: Text
    address: Text
    registered_on: date

    @property
    def account(self) -> tuple[str, str]:
        """The bank code and account number the person gives to a lender."""
        return self.bank_code, self.account_number

    @property
    def contacts(self) -> tuple[str, str]:
        """Phone and email registered with the BVN, to which one-time passwords are sent."""
        return f"0{self.phone[4:]}", self.email


def is_digits(text: str, length: int) -> bool:
    """Return whether a text is exactly so many plain digits."""
    return len(text) == length and text.isascii() and text.isdigit()


def contact_key(contact: str) -> str:
    """Write an email or a phone number in the one form under which its owner is known."""
    text = contact.strip()
    if "@" in text:
        return text.lower()
    digits = "".join(sign for sign in text if sign.isdigit())
    is_phone = len(digits) >= _NATIONAL and text.lstrip("+0123456789 ()-.") == ""
    return f"+234{digits[-_NATIONAL:]}" if is_phone else text


def person_of_bvn(bvn: str) -> Person:
    """Return the person of a BVN.

    BVNs that begin with 22 are linked: looking up the person's account returns the person, except
    for the few accounts that are missing or somebody else's.
    """
    draw = SeededRandom("person", bvn)
    woman = draw.below(2) == 1
    first, middle, last = _name(draw, woman=woman)
    born = FIRST_DAY - timedelta(days=draw.between(21 * 365, 68 * 365))
    special = test_identifiers.by_bvn(bvn)
    code = test_identifiers.BANK_CODE if special else draw.pick(BANKS_BY_WEIGHT)
    serial = special.serial if special else fiction.serial_of_holder(code, int(bvn[2:]))
    phone = f"+234{draw.pick(_WORDS['phone_prefixes'])}{draw.below(10**7):07d}"
    email = f"{_mail_name(draw, first, last)}@"
    return Person(
        bvn=bvn,
        first_name=first,
        middle_name=middle,
        last_name=last,
        gender="Female" if woman else "Male",
        date_of_birth=born,
        phone=special.phone if special else phone,
        email=special.email if special else email + draw.pick(_WORDS["mail_hosts"]),
        bank_code=code,
        account_number=fiction.account_number(code, serial),
        marital_status=draw.pick(("Single", "Married", "Married", "Divorced", "Widowed")),
        state_of_origin=f"{draw.pick(_WORDS['states'])} State",
        address=f"{draw.between(1, 180)} {draw.pick(_WORDS['streets'])}",
        registered_on=FIRST_DAY - timedelta(days=draw.between(200, 4000)),
    )


def _name(draw: SeededRandom, *, woman: bool) -> tuple[str, str, str]:
    stock = STOCKS[(0, 0, 0, 1, 1, 1, 2, 2, 2, 3)[draw.below(10)]]
    given = stock.women if woman else stock.men
    english = ENGLISH["women" if woman else "men"]
    first = draw.pick(given)
    last = draw.pick(stock.families)
    kind = draw.pick(("none",) * 2 + ("own",) * 5 + ("english",) * 3)
    if kind == "none":
        return first, "", last
    middle = draw.pick(english if kind == "english" and stock.people != "hausa" else given)
    return first, "" if middle == first else middle, last


def _mail_name(draw: SeededRandom, first: str, last: str) -> str:
    number = draw.below(1000)
    plain = (f"{first}.{last}", f"{first}{last}{number}", f"{last}.{first}", f"{first}+{last}")
    return draw.pick(plain).lower()


def timestamp(day: date, second: int, millis: int = 0) -> str:
    """Write a second of a day as an ISO 8601 timestamp."""
    hours, rest = divmod(second, 3600)
    return f"{day.isoformat()}T{hours:02d}:{rest // 60:02d}:{rest % 60:02d}.{millis:03d}Z"


def stamp(day: date, draw: SeededRandom) -> str:
    """Write a day with a drawn time of day as a timestamp."""
    return timestamp(day, draw.below(86_400))


def holder_of(bank_code: str, account_number: str, *, day: int = 0) -> Person | None:
    """Return who holds an account, or None if there is no such account."""
    if not fiction.is_right_account(bank_code, account_number):
        return None
    special = test_identifiers.by_account(account_number)
    if special:
        bvn = {"own": special.bvn, "other": "22512345678"}.get(special.account)
        return person_of_bvn(bvn) if bvn else None
    draw = SeededRandom("account", bank_code, account_number)
    share = draw.share()
    if share < MISSING_SHARE:
        return None
    if draw.share() < ACCOUNT_GONE_SHARE and draw.between(1, WORLD_CHANGE_DAYS) <= day:
        return None
    holder = fiction.holder_of_serial(bank_code, int(account_number[:9]))
    if share < MISSING_SHARE + OTHER_SHARE:
        holder = draw.below(10**9)
    return person_of_bvn(f"{LINKED_PREFIX}{holder:09d}")


def account_of(
    bank_code: str, account_number: str, *, day: int = 0, masked: bool = True
) -> Record | None:
    """Return the data of a bank account (service.md, "Bank account verification result")."""
    person = holder_of(bank_code, account_number, day=day)
    return account_record(person, bank_code, account_number, masked=masked) if person else None


def account_record(person: Person, bank_code: str, account_number: str, *, masked: bool) -> Record:
    """Write what the service says of an account that somebody holds.

    Of a masked BVN the first two and the last two digits stay, the others are zero.
    """
    bvn = person.bvn
    return {
        "bank_code": bank_code,
        "account_name": account_name(person, bank_code, account_number),
        "account_number": account_number,
        "bvn": f"{bvn[:2]}0000000{bvn[-2:]}" if masked else bvn,
    }


def account_name(person: Person, bank_code: str, account_number: str) -> str:
    """Write a holder's name as this bank has it: mostly SURNAME FIRST MIDDLE in capitals."""
    first, middle, last = person.first_name, person.middle_name, person.last_name
    form = SeededRandom("account name", bank_code, account_number).below(100)
    shares: tuple[tuple[int, tuple[str, ...]], ...] = (
        (68, (last, first, middle)),
        (80, (first, middle, last)),
        (88, (last, first)),
        (93, (f"{last},", first, middle)),
        (97, (last, first, middle[:1])),
    )
    parts = next((parts for below, parts in shares if form < below), None)
    if parts is None:
        return " ".join(filter(None, (first, middle, last)))
    return " ".join(filter(None, parts)).upper()


def bvn_details(bvn: str, person: Person | None = None) -> Record:
    """Return the data of a finished BVN consent (service.md, "BVN details")."""
    person = person or person_of_bvn(bvn)
    draw = SeededRandom("bvn details", bvn)
    registered = person.registered_on
    details: Record = {
        "reference": draw.between(100_000, 99_999_999),
        "bvn": bvn,
        "first_name": person.first_name,
        "middle_name": person.middle_name,
        "last_name": person.last_name,
        "dob": person.date_of_birth.isoformat(),
        "mobile": person.contacts[0],
        "registration_date": f"{registered:%d}-{MONTHS[registered.month - 1]}-{registered.year}",
        "enrollment_bank": person.bank_code,
        "email": person.email,
        "gender": person.gender,
        "marital_status": person.marital_status,
        "residential_address": person.address,
        "state_of_origin": person.state_of_origin,
        "watchlisted": int(draw.below(100) == 0),
        "image_url": f"https://images.example/{draw.below(10**12):012d}.jpg",
    }
    row = test_identifiers.by_bvn(bvn)
    if row:
        details["watchlisted"] = int(row.watchlisted)
    if row and row.incomplete:
        details |= {"middle_name": "", "residential_address": "", "email": None}
        details["marital_status"] = None
        for name in ("image_url", "registration_date", "mobile"):
            del details[name]
    return details


def bvn_accounts(bvn: str, person: Person | None = None) -> list[Record]:
    """Return the data of a finished BVN consent in its other shape, a list of bank accounts."""
    person, draw = person or person_of_bvn(bvn), SeededRandom("account type", bvn)
    places = [person.account]
    places += [drawn_account(draw) for _ in range(draw.below(3))]
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
    """Return the one-time password that this customer receives with so many sent."""
    first = SeededRandom("one-time password", bvn).below(_OTPS)
    return f"{(first + (number - 1) * _OTP_STEP) % _OTPS:06d}"


def identity_kind(identity: str) -> str | None:
    """Return what an identity is by its form (service.md, "Identifier kinds accepted for lookup").

    None for anything else, such as an image, which has no known transport.
    """
    return next((kind for kind, (_, form) in _FORMS.items() if form.fullmatch(identity)), None)


def karma_of(identity: str, *, day: int = 0) -> Record | None:
    """Return the data of a listed identity (service.md, "Karma (blacklist) record"), or None."""
    kind = identity_kind(identity)
    if kind is None:
        return None
    draw = SeededRandom("karma", identity)
    share, turning = draw.share(), draw.share()
    turned = draw.between(1, WORLD_CHANGE_DAYS) <= day
    special = test_identifiers.by_karma_identity(identity)
    if special:
        listed = special.listed
    elif share < LISTED_SHARE[kind]:
        listed = not (turning < CLEARED_SHARE and turned)
    else:
        listed = turning < NEWLY_LISTED_SHARE and turned
    return karma_record(identity, kind) if listed else None


def karma_record(identity: str, kind: str) -> Record:
    """Write the entry of an identity of a known kind, as if it were listed."""
    draw = SeededRandom("karma record", identity)
    name, email = draw.pick(FICTION["karma"]["reporters"])
    defaulted = FIRST_DAY - timedelta(days=draw.between(60, 2500))
    kobo = draw.pick((0, 0, 0, 50))
    low, high = draw.pick(_DEBTS)
    return {
        "karma_identity": identity,
        "amount_in_contention": f"{draw.between(low, high - 1)}.{kobo:02d}",
        "reason": draw.pick(FICTION["karma"]["reasons"]) or None,
        "default_date": defaulted.isoformat(),
        "karma_type": {"karma": draw.pick(("Loan default", "Fraud", "Identity theft", "Others"))},
        "karma_identity_type": {"identity_type": _FORMS[kind][0]},
        "reporting_entity": {"name": name, "email": email},
    }


def ecosystem_of(
    bvn: str, *, day: int = 0, person: Person | None = None, known: bool = False
) -> Record | None:
    """Return the data of a person's borrower history (service.md, "Ecosystem record"), or None.

    Args:
        bvn: eleven digits.
        day: of the simulated world.
        person: its holder, if not the made-up one.
        known: lenders have reported the person, whatever their life says.
    """
    draw = SeededRandom("ecosystem", bvn)
    special = test_identifiers.by_bvn(bvn)
    found = draw.share() < FOUND_SHARE
    first_loan_day = draw.between(1, WORLD_CHANGE_DAYS) if draw.share() < FIRST_LOAN_SHARE else None
    if special:
        found = special.history != "none"
    elif not found:
        found = first_loan_day is not None and first_loan_day <= day
    if not (found or known):
        return None
    return _history(draw, bvn, person or person_of_bvn(bvn), day)


def _naira(draw: SeededRandom, low: int, high: int) -> Decimal:
    return Decimal(draw.between(low, high)).scaleb(2) + Decimal(draw.pick((0, 0, 0, 50)))


def _history(draw: SeededRandom, bvn: str, person: Person, day: int) -> Record:
    """Write a history whose counts and amounts agree with each other."""
    special = test_identifiers.by_bvn(bvn)
    is_bad = draw.share() < PAST_DUE_SHARE
    if special:
        is_bad = special.history == "bad"
    past_due = draw.between(1, 3) if is_bad else 0
    settled = draw.between(1, 14)
    running = past_due + draw.below(3)
    delayed = min(settled, draw.below(4))
    loans, today = settled + running, FIRST_DAY + timedelta(days=day)
    first = FIRST_DAY - timedelta(days=draw.between(400, 2400))
    last = FIRST_DAY - timedelta(days=draw.between(3, 380))
    smallest = _naira(draw, 50, 400)
    largest = smallest + _naira(draw, 100, 4600)
    average = ((smallest + largest) / 2 + Decimal(draw.below(100)) / 100).quantize(_CENT)
    born = person.date_of_birth
    lenders = min(loans, draw.between(1, 6))
    opened = stamp(first, draw), stamp(last, draw)
    low, high = draw.pick(_DEBTS)
    specified: Record = {
        "bvn": person.bvn,
        "first_name": person.first_name,
        "last_name": person.last_name,
        "date_of_birth": f"{born.isoformat()}T00:00:00.000Z",
        "age": today.year - born.year - ((today.month, today.day) < (born.month, born.day)),
        "lenders": lenders,
        "first_account": opened[0],
        "last_account": opened[1],
        "loans": loans,
        "loan_amount_minimum": smallest,
        "loan_amount_maximum": largest,
        "loan_amount_average": average,
        "settled_loans": settled,
        "running_loans": running,
        "past_due_loans": past_due,
        "delayed_paid_loans": delayed,
        "past_due_loan_amount_due": _naira(draw, low // 100, high // 100 - 1) * past_due,
        "logins": draw.between(1, 400),
        "first_login": stamp(first, draw),
        "last_login": stamp(last, draw),
        "credit_delinquency": past_due + (1 if delayed else 0),
        "processed_on": stamp(today, draw),
    }
    # what was recorded beside the specified fields
    draw, whole = SeededRandom("ecosystem extras", bvn), int(average)
    requests = loans + draw.below(9)
    trials = [draw.between(1, 6) for _ in range(delayed)]
    penalty = draw.below(40) * 500 if delayed or past_due else 0
    devices = draw.between(1, 5)
    return specified | {
        "bvn_phone_number": person.contacts[0],
        "unique_phone_numbers": draw.between(1, 3),
        "phone_number": person.contacts[0],
        "unique_emails": draw.between(1, 2),
        "email": person.email,
        "gender": person.gender,
        "failed_selfie_bvn_check": draw.pick((0, 0, 0, 0, 1, 2)),
        "lending_lenders": lenders,
        "loan_amount": whole * loans,
        "settled_loan_amount": whole * settled,
        "settled_loan_amount_paid": whole * settled + penalty,
        "running_loan_amount": whole * running,
        "past_due_loan_amount": whole * past_due,
        "penalty": penalty,
        "penalty_paid": 0 if past_due else penalty,
        "delayed_paid_loan_amount": whole * delayed,
        "delayed_paid_loans_trials": sum(trials),
        "delayed_paid_loans_avg": (Decimal(sum(trials)) / max(1, len(trials))).quantize(_CENT),
        "delayed_paid_loans_trials_max": max(trials, default=0),
        "delayed_paid_loans_trials_min": min(trials, default=0),
        "first_loan_date": opened[0],
        "last_loan_date": opened[1],
        "loan_requests": requests,
        "failed_loan_requests": requests - loans,
        "unique_login_ips": draw.between(1, 40),
        "unique_device_ids": devices,
        "distinct_mobile_os": min(devices, draw.between(1, 2)),
        "duplicated_devices": draw.pick((0, 0, 0, 1, 2)),
        "shared_device_users": draw.pick((0, 0, 0, 0, 1, 3)),
    }


def selfie_of(bvn: str, image_url: str) -> Record | None:
    """Return the data of an image match (service.md, "BVN image match result"), or None."""
    draw = SeededRandom("likeness", bvn, image_url)
    special = test_identifiers.by_bvn(bvn)
    kind = draw.pick(("match",) * 92 + ("unsure",) * 4 + ("no_match",) * 4)
    kind = special.likeness if special else kind
    if kind == "unknown":
        return None
    low, high = _LIKENESS[kind]
    similarity = Decimal(low * 10_000 + draw.below((high - low) * 10_000)) / 10_000
    return {"match": similarity >= MATCH_FROM, "similarity": similarity}
