"""The loan book: products, borrowers, and the state of each loan on a day.

A loan moves by the day of the simulated world, by what its customer does on the hosted form, and by
what the control surface says. Its place on a day is worked out, never stored, so that the world can
be moved freely.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from nightscreen.sandbox import test_identifiers
from nightscreen.sandbox.people import FIRST_DAY, contact_key, is_phone, person_of_bvn, stamp
from nightscreen.sandbox.seeded_random import SeededRandom

if TYPE_CHECKING:
    from nightscreen.sandbox.people import Person
    from nightscreen.sandbox.test_identifiers import MagicPerson

DAYS: Final = {"day": 1, "month": 30}
"""Length of a period in days of the simulated world."""

_KOBO: Final = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class Product:
    """One loan product (service.md, "Loan product")."""

    product_id: str  # its identifier
    name: str  # what customers call it
    description: str  # one sentence for them
    disburse_to: str  # where the money goes
    collection_method: str  # how it is paid back
    interest_rate: Decimal  # percent for each `period`, on the amount lent
    period: str  # `day` or `month`, of interest and tenor
    min_amount: int  # smallest loan in naira
    max_amount: int  # largest loan in naira
    tenors: tuple[int, ...]  # the choices of length, in periods, shortest first
    guarantor: bool = False  # whether a guarantor is needed
    shows_period: bool = True  # whether the list says of which period interest and tenors are
    active: bool = True  # whether it is offered now

    def as_json(self) -> dict[str, object]:
        """Return the product as the list of products shows it."""
        period = self.period if self.shows_period else None
        return {
            "product_id": self.product_id,
            "name": self.name,
            "description": self.description,
            "disburse_to": self.disburse_to,
            "collection_method": self.collection_method,
            "interest_rate": self.interest_rate,
            "interest_period": period,
            "min_amount": self.min_amount,
            "max_amount": self.max_amount,
            "min_tenor_value": self.tenors[0],
            "min_tenor_period": period,
            "max_tenor_value": self.tenors[-1],
            "max_tenor_period": period,
            "require_guarantor": int(self.guarantor),
            "allows_early_settlement": 1,
            "is_active": int(self.active),
        }

    def instalments(self, tenor: int) -> int:
        """Return in how many parts a loan is repaid: monthly, or at once if shorter."""
        return tenor if self.period == "month" else 1

    def repayable(self, amount: Decimal, tenor: int) -> Decimal:
        """Return what is paid back in all, in naira."""
        return (amount * (1 + self.interest_rate * tenor / 100)).quantize(_KOBO)

    def tenor_text(self, tenor: int) -> str:
        """Write a length for people."""
        return f"{tenor} {self.period}{'' if tenor == 1 else 's'}"


PRODUCTS: Final = (
    Product(
        "LP1001",
        "Salary advance",
        "Part of your next salaries, today.",
        disburse_to="bank_account",
        collection_method="direct_debit",
        interest_rate=Decimal(4),
        period="month",
        min_amount=5_000,
        max_amount=150_000,
        tenors=(1, 2, 3),
    ),
    Product(
        "LP1002",
        "Quick loan",
        "A small loan for a few weeks.",
        disburse_to="bank_account",
        collection_method="card",
        interest_rate=Decimal("0.5"),
        period="day",
        min_amount=2_000,
        max_amount=50_000,
        tenors=(7, 14, 21, 30),
    ),
    Product(
        "LP1003",
        "School fees",
        "Fees paid at the start of term, repaid over it.",
        disburse_to="school",
        collection_method="direct_debit",
        interest_rate=Decimal("2.75"),
        period="month",
        min_amount=20_000,
        max_amount=500_000,
        tenors=(3, 4, 5, 6),
    ),
    Product(
        "LP1004",
        "Device finance",
        "A phone or a computer, paid for month by month.",
        disburse_to="merchant",
        collection_method="card",
        interest_rate=Decimal("3.5"),
        period="month",
        min_amount=50_000,
        max_amount=1_500_000,
        tenors=(3, 6, 9, 12),
        guarantor=True,
        shows_period=False,
    ),
    Product(
        "LP1005",
        "Harvest loan",
        "Seed and fertiliser, repaid after the harvest.",
        disburse_to="wallet",
        collection_method="direct_debit",
        interest_rate=Decimal(2),
        period="month",
        min_amount=30_000,
        max_amount=800_000,
        tenors=(6, 9),
        active=False,
    ),
)
"""Every product; those that are not active are neither listed nor offered."""

_BY_ID: Final = {product.product_id: product for product in PRODUCTS}


def active_products() -> list[Product]:
    """List the products offered now."""
    return [product for product in PRODUCTS if product.active]


def product_of(product_id: str) -> Product | None:
    """Find an active product."""
    product = _BY_ID.get(product_id)
    return product if product and product.active else None


RUNNING_SHARE: Final = 4
EXISTING_SHARE: Final = 16
"""Percent of contacts whose owner had a loan before, still running or long settled."""

_SESSIONS_KEPT: Final = 10_000


def magic_row(email: str, phone_number: str) -> MagicPerson | None:
    """Find the magic row of a customer, by email first."""
    for contact in (email, phone_number):
        key = contact_key(contact)
        row = test_identifiers.by_karma_identity(key) if "@" in key or is_phone(key) else None
        if row:
            return row
    return None


def standing_of(contact: str) -> str:
    """Return the standing of a contact's owner with the organisation before any loan of this book.

    Returns:
        `running` with a running loan, `existing` with a login only, or empty.
    """
    key = contact_key(contact)
    if not key:
        return ""
    row = magic_row(key, "")
    if row:
        return row.loan if row.loan in ("running", "existing") else ""
    chance = SeededRandom("borrower", key).below(100)
    if chance < RUNNING_SHARE:
        return "running"
    return "existing" if chance < RUNNING_SHARE + EXISTING_SHARE else ""


def code_of(contact: str) -> str:
    """Return the code with which a contact's owner logs in."""
    return f"{SeededRandom('login code', contact_key(contact)).below(10**6):06d}"


@dataclass(frozen=True, slots=True)
class Borrower:
    """One person who borrows; empty text where something is not known."""

    first_name: str
    last_name: str
    email: str
    phone_number: str

    @classmethod
    def made_up(cls, email: str, phone_number: str, about: str) -> Borrower:
        """Make up a person behind contacts; a magic contact has its own person."""
        row = magic_row(email, phone_number)
        person = person_of_bvn(row.bvn) if row else _person(email, phone_number, about)
        phone = phone_number or person.phone
        return cls(person.first_name, person.last_name, email or person.email, phone)

    def contacts(self) -> tuple[str, ...]:
        """List the keys under which this person is known."""
        keys = (contact_key(self.email), contact_key(self.phone_number))
        return tuple(key for key in keys if key)

    def as_json(self) -> dict[str, object]:
        """Return the person as a loan shows its user."""
        return {
            "first_name": self.first_name,
            "last_name": self.last_name,
            "email": self.email or None,
            "phone_number": self.phone_number or None,
        }


def _person(email: str, phone_number: str, about: str) -> Person:
    contact = contact_key(email) or contact_key(phone_number) or about
    return person_of_bvn(f"22{SeededRandom('borrower person', contact).below(10**9):09d}")


@dataclass(slots=True)
class Borrowers:
    """Who has a login, and who is logged in."""

    registered: dict[str, Borrower] = field(default_factory=dict)
    _sessions: dict[str, Borrower] = field(default_factory=dict)

    def find(self, contact: str) -> Borrower | None:
        """Find the person with a login under a contact, or None."""
        key = contact_key(contact)
        known = self.registered.get(key)
        if known or not standing_of(key):
            return known
        email, phone = (key, "") if "@" in key else ("", key)
        return self.register(Borrower.made_up(email, phone, key))

    def register(self, borrower: Borrower) -> Borrower:
        """Give a person a login under each of their contacts; who has one keeps it."""
        for key in borrower.contacts():
            self.registered.setdefault(key, borrower)
        return borrower

    def open_session(self, borrower: Borrower) -> str:
        """Log a person in; returns the secret of the session."""
        while len(self._sessions) >= _SESSIONS_KEPT:
            self._sessions.pop(next(iter(self._sessions)))
        secret = secrets.token_urlsafe(24)
        self._sessions[secret] = borrower
        return secret

    def session(self, secret: str) -> Borrower | None:
        """Return who is logged in with a secret."""
        return self._sessions.get(secret)

    def close_session(self, secret: str) -> None:
        """Log out."""
        self._sessions.pop(secret, None)


SHORT_LINK: Final = "/l"
"""The path of all short links, below the sandbox's own address."""

PENDING: Final = "PENDING"
RUNNING: Final = "RUNNING"
SETTLED: Final = "SETTLED"
CANCELLED: Final = "CANCELLED"
WORDS: Final = (PENDING, RUNNING, SETTLED, CANCELLED)

FATES: Final = ("approved", "rejected", "running", "never", "cancelled", "stuck", "existing")
"""The fate of an offer: see the loan rows of `sandbox.test_identifiers`."""

REASONS: Final = (
    "Income could not be confirmed",
    "Too many loans with other lenders",
    "The account is not in the applicant's name",
)
_SHARES: Final = (("never", 12), ("rejected", 10), ("cancelled", 4), ("stuck", 2))
_LATEST_ANSWER: Final = 4
_DECIDED_AFTER: Final = 1
_LETTERS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_CENT: Final = Decimal("0.01")


def fate_of(product_id: str, email: str = "", phone_number: str = "") -> str:
    """Return what becomes of an offer, before it is made: the same for the same customer.

    Returns:
        A word of `FATES`.
    """
    row = magic_row(email, phone_number)
    if row:
        return row.loan
    contact = contact_key(email) or contact_key(phone_number)
    if not contact:
        return "approved"
    standing = standing_of(contact)
    if standing == "running":
        return standing
    chance = SeededRandom("loan fate", product_id, contact).below(100)
    for word, share in _SHARES:
        if chance < share:
            return word
        chance -= share
    return standing or "approved"


@dataclass(slots=True)
class Application:
    """What a customer asked for on the form, by hand or played by the sandbox."""

    borrower: Borrower  # who applied
    day: int  # when
    amount: Decimal  # naira
    tenor: int  # periods of the product
    cancelled_on: int | None = None  # the day on which the customer took it back, or None


@dataclass(frozen=True, slots=True)
class Earlier:
    """A running loan from before this book, which its customer sees and no distributor does."""

    reference: str
    name: str
    amount: Decimal


def earlier_of(borrower: Borrower) -> Earlier | None:
    """Return which loan keeps a borrower with the standing `running` from another."""
    contact = next(
        (known for known in borrower.contacts() if standing_of(known) == "running"), None
    )
    if contact is None:
        return None
    draw = SeededRandom("earlier loan", contact)
    reference = "".join(draw.pick(_LETTERS) for _ in range(12))
    amount = Decimal(1000 * draw.between(5, 50))
    return Earlier(reference, draw.pick(active_products()).name, amount)


@dataclass(frozen=True, slots=True)
class Steering:
    """What the control surface set for a loan: its status word from a day on."""

    day: int
    status: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class Place:
    """The state of a loan on a day."""

    status: str  # one of `WORDS`
    application: Application | None  # what was asked for, or None while the form is not filled in
    disbursed_on: int | None = None  # the day on which the money went out, or None
    ended_on: int | None = None  # the day on which it was settled or cancelled, or None
    reason: str | None = None  # why it was turned down, or None
    paid: Decimal = Decimal(0)  # naira paid back so far

    @property
    def is_open(self) -> bool:
        """Whether there is an application that is pending or running."""
        return self.application is not None and self.status in (PENDING, RUNNING)

    @property
    def can_request(self) -> bool:
        """Whether the form can be filled in."""
        return self.application is None and self.status == PENDING

    @property
    def can_cancel(self) -> bool:
        """Whether the customer can take the application back."""
        return self.application is not None and self.status == PENDING


@dataclass(slots=True)
class Loan:
    """One offer of one product, and the loan that it may become."""

    reference: str  # as the service gave it
    token: str  # the last part of the short link
    product: Product  # what was offered
    email: str  # as in `meta`, or empty
    phone_number: str  # as in `meta`, or empty
    opened_on: int  # day of the simulated world
    fate: str  # a word of `FATES`
    application: Application | None = None  # what was filled in by hand
    # whether the sandbox fills in the form where nobody does: of several open offers to one
    # customer only the first is used
    plays: bool = True
    steering: Steering | None = None  # what the control surface set last

    @property
    def path(self) -> str:
        """The path of its short link, below the sandbox's own address."""
        return f"{SHORT_LINK}/{self.token}"

    def contacts(self) -> tuple[str, ...]:
        """List the keys under which its customer is known."""
        keys = (contact_key(self.email), contact_key(self.phone_number))
        return tuple(key for key in keys if key)

    def played(self) -> Application:
        """Make the application that the sandbox's customer fills in on the customer's own day."""
        draw = SeededRandom("loan application", self.reference)
        product = self.product
        day = self.opened_on + draw.between(1, _LATEST_ANSWER)
        steps = (product.max_amount - product.min_amount) // 1000
        amount = Decimal(product.min_amount + 1000 * draw.between(0, steps))
        borrower = Borrower.made_up(self.email, self.phone_number, self.reference)
        return Application(borrower, day, amount, draw.pick(product.tenors))

    def place(self, day: int) -> Place:
        """Return the state of the loan on a day of the simulated world."""
        steering = self.steering
        if steering and day >= steering.day:
            return self._steered(day, steering)
        application = self.application
        if application is None and self.plays:
            application = self.played()
        if application is None or day < application.day:
            return Place(PENDING, None)
        return self._natural(day, application)

    def keeps_busy(self, day: int) -> bool:
        """Return whether its customer has applied, or will, and it has not ended yet."""
        place = self.place(day)
        return place.ended_on is None and (self.plays or place.application is not None)

    def _natural(self, day: int, application: Application) -> Place:
        taken_back, decided = application.cancelled_on, application.day + _DECIDED_AFTER
        if self.fate == "cancelled" and taken_back is None:
            taken_back = decided
        if taken_back is not None and day >= taken_back:
            return Place(CANCELLED, application, ended_on=taken_back)
        if day < decided or self.fate == "stuck":
            return Place(PENDING, application)
        if self.fate == "rejected":
            reason = SeededRandom("reject reason", self.reference).pick(REASONS)
            return Place(CANCELLED, application, ended_on=decided, reason=reason)
        return self._repaying(day, application, decided)

    def _repaying(self, day: int, application: Application, disbursed: int) -> Place:
        product, tenor = self.product, application.tenor
        due = disbursed + tenor * DAYS[product.period]
        whole = product.repayable(application.amount, tenor)
        if day >= due:
            return Place(SETTLED, application, disbursed, due, paid=whole)
        parts = product.instalments(tenor)
        length = (due - disbursed) // parts
        paid = (whole * ((day - disbursed) // length) / parts).quantize(_CENT)
        return Place(RUNNING, application, disbursed, paid=paid)

    def _steered(self, day: int, steering: Steering) -> Place:
        """Follow the control surface; a running loan goes on to be paid back from there."""
        application, status = self.application, steering.status
        if status == PENDING or application is None:
            ended = steering.day if status == CANCELLED else None
            return Place(status, application, ended_on=ended, reason=steering.reason)
        if status == RUNNING:
            return self._repaying(day, application, steering.day)
        if status == CANCELLED:
            return Place(status, application, ended_on=steering.day, reason=steering.reason)
        whole = self.product.repayable(application.amount, application.tenor)
        return Place(status, application, application.day, steering.day, paid=whole)

    def as_json(self, place: Place) -> dict[str, object]:
        """Return the loan as the service shows it (service.md, "Loan or loan request")."""
        application = place.application
        disbursed = application.amount if application and place.disbursed_on is not None else 0
        return {
            "reference": self.reference,
            "product_id": self.product.product_id,
            "product_name": self.product.name,
            "status": {
                "status": place.status,
                "can_request": place.can_request,
                "can_cancel": place.can_cancel,
            },
            "loan_amount": application.amount if application else None,
            "amount_disbursed": disbursed,
            "paid": place.paid,
            "tenor_value": application.tenor if application else None,
            "tenor_period": self.product.period,
            "reject_reason": place.reason,
            "user": self._user(application),
            "created_on": self._moment(self.opened_on),
            "applied_on": self._moment(application.day) if application else None,
            "disbursed_on": self._moment(place.disbursed_on),
            "settled_on": self._moment(place.ended_on) if place.status == SETTLED else None,
        }

    def shown(self, place: Place) -> dict[str, object]:
        """Return the loan as the control surface shows it."""
        application = place.application
        return {
            "reference": self.reference,
            "path": self.path,
            "product_id": self.product.product_id,
            "email": self.email,
            "phone_number": self.phone_number,
            "fate": self.fate,
            "opened_on": self.opened_on,
            "applied_on": application.day if application else None,
            "status": place.status,
            "reject_reason": place.reason,
        }

    def _user(self, application: Application | None) -> dict[str, object]:
        if application:
            return application.borrower.as_json()
        return {
            "first_name": None,
            "last_name": None,
            "email": self.email or None,
            "phone_number": self.phone_number or None,
        }

    def _moment(self, day: int | None) -> str | None:
        if day is None:
            return None
        return stamp(
            FIRST_DAY + timedelta(days=day), SeededRandom("loan moment", self.reference, str(day))
        )


@dataclass(slots=True)
class LoanBook:
    """Every loan since the last reset, and the people who borrow."""

    loans: dict[str, Loan] = field(default_factory=dict)
    people: Borrowers = field(default_factory=Borrowers)
    _by_token: dict[str, Loan] = field(default_factory=dict)
    _by_contact: dict[str, list[Loan]] = field(default_factory=dict)
    _offered: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def offer(self, product: Product, email: str, phone_number: str, day: int) -> Loan:
        """Open a loan; asked again for the same customer, the service opens another."""
        key = (product.product_id, email, phone_number)
        number = self._offered[key] = self._offered.get(key, 0) + 1
        draw = SeededRandom("loan", *key, str(number))
        loan = Loan(
            reference=self._free(draw, 12, self.loans),
            token=self._free(draw, 8, self._by_token).lower(),
            product=product,
            email=email,
            phone_number=phone_number,
            opened_on=day,
            fate=fate_of(product.product_id, email, phone_number),
        )
        earlier = [
            other for contact in loan.contacts() for other in self._by_contact.get(contact, ())
        ]
        loan.plays = loan.fate not in ("never", "running") and not any(
            other.keeps_busy(day) for other in earlier
        )
        self.loans[loan.reference] = self._by_token[loan.token] = loan
        self._know(loan, loan.contacts())
        return loan

    @staticmethod
    def _free(draw: SeededRandom, length: int, taken: dict[str, Loan]) -> str:
        while True:
            text = "".join(draw.pick(_LETTERS) for _ in range(length))
            if text not in taken and text.lower() not in taken:
                return text

    def _know(self, loan: Loan, contacts: tuple[str, ...]) -> None:
        for contact in contacts:
            loans_of_contact = self._by_contact.setdefault(contact, [])
            if loan not in loans_of_contact:
                loans_of_contact.append(loan)

    def by_token(self, token: str) -> Loan | None:
        """Find the loan behind a short link."""
        return self._by_token.get(token)

    def apply(self, loan: Loan, application: Application) -> None:
        """Fill in the form of a loan."""
        loan.application, loan.steering = application, None
        self._know(loan, application.borrower.contacts())

    def cancel(self, loan: Loan, day: int) -> None:
        """Take the customer's application back."""
        application = loan.place(day).application
        if application:
            loan.application = replace(application, cancelled_on=day)
            loan.steering = None

    def steer(self, loan: Loan, steering: Steering) -> None:
        """Put a loan where the control surface wants it, from a day on.

        A loan that runs or is settled has been applied for: the application is played where
        there is none.
        """
        place = loan.place(steering.day)
        applied = place.application
        if applied is None and steering.status in (RUNNING, SETTLED):
            applied = replace(loan.played(), day=steering.day)
        loan.application, loan.steering = applied, steering

    def borrower(self, contact: str, day: int) -> Borrower | None:
        """Find who has a login under a contact on a day; applying for a loan gives one."""
        for loan in self._by_contact.get(contact_key(contact), ()):
            application = loan.place(day).application
            if application:
                self.people.register(application.borrower)
        return self.people.find(contact)

    def loans_of(self, borrower: Borrower, day: int) -> list[tuple[Loan, Place]]:
        """List what a person has applied for, with its state on a day."""
        found = {
            loan.reference: loan
            for contact in borrower.contacts()
            for loan in self._by_contact.get(contact, ())
        }
        placed = [(loan, loan.place(day)) for loan in found.values()]
        return [
            (loan, place)
            for loan, place in placed
            if place.application and place.application.borrower == borrower
        ]
