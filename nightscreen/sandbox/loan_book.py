"""The loan book: products, and the state of each loan on a day.

A loan moves by the day of the simulated world, by the form that its customer fills in, and by what
the control surface says. Its place on a day is worked out, never stored, so that the world can be
moved freely.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from nightscreen.sandbox import test_identifiers
from nightscreen.sandbox.people import FIRST_DAY, contact_key, is_phone, person_of_bvn, stamp
from nightscreen.sandbox.seeded_random import SeededRandom

if TYPE_CHECKING:
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
            "is_active": 1,
        }

    def repayable(self, amount: Decimal, tenor: int) -> Decimal:
        """Return what is paid back in all, in naira."""
        return (amount * (1 + self.interest_rate * tenor / 100)).quantize(_KOBO)


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
)

_BY_ID: Final = {product.product_id: product for product in PRODUCTS}


def product_of(product_id: str) -> Product | None:
    """Find a product."""
    return _BY_ID.get(product_id)


SHORT_LINK: Final = "/l"
"""The path of all short links, below the sandbox's own address."""

PENDING: Final = "PENDING"
RUNNING: Final = "RUNNING"
SETTLED: Final = "SETTLED"
CANCELLED: Final = "CANCELLED"
WORDS: Final = (PENDING, RUNNING, SETTLED, CANCELLED)

FATES: Final = ("approved", "rejected", "running", "never", "cancelled", "stuck")
"""The fate of an offer: see the loan rows of `sandbox.test_identifiers`."""

REASONS: Final = (
    "Income could not be confirmed",
    "Too many loans with other lenders",
    "The account is not in the applicant's name",
)
_RUNNING_SHARE: Final = 4
_SHARES: Final = (("never", 12), ("rejected", 10), ("cancelled", 4), ("stuck", 2))
"""Percent of contacts, those with a running loan already and, of the others, each other fate."""

_LATEST_ANSWER: Final = 4
_DECIDED_AFTER: Final = 1
_LETTERS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def magic_row(email: str, phone_number: str) -> MagicPerson | None:
    """Find the magic row of a customer, by email first."""
    for contact in (email, phone_number):
        key = contact_key(contact)
        row = test_identifiers.by_karma_identity(key) if "@" in key or is_phone(key) else None
        if row:
            return row
    return None


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
    if SeededRandom("borrower", contact).below(100) < _RUNNING_SHARE:
        return "running"
    chance = SeededRandom("loan fate", product_id, contact).below(100)
    for word, share in _SHARES:
        if chance < share:
            return word
        chance -= share
    return "approved"


@dataclass(frozen=True, slots=True)
class Application:
    """What a customer asked for on the form, by hand or played by the sandbox."""

    user: dict[str, object]  # who applied, as a loan shows its user
    day: int  # when
    amount: Decimal  # naira
    tenor: int  # periods of the product


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
    settled_on: int | None = None
    reason: str | None = None  # why it was turned down, or None
    paid: Decimal = Decimal(0)  # naira paid back so far

    @property
    def can_request(self) -> bool:
        """Whether the form can be filled in."""
        return self.application is None and self.status == PENDING


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
    steering: Steering | None = None  # what the control surface set last

    @property
    def path(self) -> str:
        """The path of its short link, below the sandbox's own address."""
        return f"{SHORT_LINK}/{self.token}"

    def played(self) -> Application:
        """Make the application that the sandbox's customer fills in on the customer's own day."""
        draw = SeededRandom("loan application", self.reference)
        product = self.product
        day = self.opened_on + draw.between(1, _LATEST_ANSWER)
        steps = (product.max_amount - product.min_amount) // 1000
        amount = Decimal(product.min_amount + 1000 * draw.between(0, steps))
        return Application(self._somebody(), day, amount, draw.pick(product.tenors))

    def _somebody(self) -> dict[str, object]:
        """Make up a person behind the contacts; a magic contact has its own person."""
        row = magic_row(self.email, self.phone_number)
        contact = contact_key(self.email) or contact_key(self.phone_number) or self.reference
        number = SeededRandom("borrower person", contact).below(10**9)
        person = person_of_bvn(row.bvn if row else f"22{number:09d}")
        return {
            "first_name": person.first_name,
            "last_name": person.last_name,
            "email": self.email or person.email,
            "phone_number": self.phone_number or person.phone,
        }

    def place(self, day: int) -> Place:
        """Return the state of the loan on a day of the simulated world."""
        if self.steering and day >= self.steering.day:
            return self._steered(day, self.steering)
        application = self.application
        if application is None and self.fate not in ("never", "running"):
            application = self.played()
        if application is None or day < application.day:
            return Place(PENDING, None)
        decided = application.day + _DECIDED_AFTER
        if day < decided or self.fate == "stuck":
            return Place(PENDING, application)
        if self.fate == "cancelled":
            return Place(CANCELLED, application)
        if self.fate == "rejected":
            reason = SeededRandom("reject reason", self.reference).pick(REASONS)
            return Place(CANCELLED, application, reason=reason)
        return self._repaying(day, application, decided)

    def _repaying(self, day: int, application: Application, disbursed: int) -> Place:
        """Pay a loan back month by month, or at once where it is shorter."""
        product, tenor = self.product, application.tenor
        due = disbursed + tenor * DAYS[product.period]
        whole = product.repayable(application.amount, tenor)
        if day >= due:
            return Place(SETTLED, application, disbursed, due, paid=whole)
        parts = tenor if product.period == "month" else 1
        length = (due - disbursed) // parts
        paid = (whole * ((day - disbursed) // length) / parts).quantize(_KOBO)
        return Place(RUNNING, application, disbursed, paid=paid)

    def _steered(self, day: int, steering: Steering) -> Place:
        """Follow the control surface; a running loan goes on to be paid back from there."""
        application, status = self.application, steering.status
        if application and status == RUNNING:
            return self._repaying(day, application, steering.day)
        if application and status == SETTLED:
            whole = self.product.repayable(application.amount, application.tenor)
            return Place(status, application, application.day, steering.day, paid=whole)
        return Place(status, application, reason=steering.reason)

    def steer(self, steering: Steering) -> None:
        """Put the loan where the control surface wants it, from a day on.

        A loan that runs or is settled has been applied for: the application is played where
        there is none.
        """
        applied = self.place(steering.day).application
        if applied is None and steering.status in (RUNNING, SETTLED):
            applied = replace(self.played(), day=steering.day)
        self.application, self.steering = applied, steering

    def as_json(self, place: Place) -> dict[str, object]:
        """Return the loan as the service shows it (service.md, "Loan or loan request")."""
        application = place.application
        lent = application.amount if application and place.disbursed_on is not None else 0
        return {
            "reference": self.reference,
            "product_id": self.product.product_id,
            "product_name": self.product.name,
            "status": {
                "status": place.status,
                "can_request": place.can_request,
                "can_cancel": application is not None and place.status == PENDING,
            },
            "loan_amount": application.amount if application else None,
            "amount_disbursed": lent,
            "paid": place.paid,
            "tenor_value": application.tenor if application else None,
            "tenor_period": self.product.period,
            "reject_reason": place.reason,
            "user": application.user if application else self._user(),
            "created_on": self._moment(self.opened_on),
            "applied_on": self._moment(application.day) if application else None,
            "disbursed_on": self._moment(place.disbursed_on),
            "settled_on": self._moment(place.settled_on),
        }

    def shown(self, place: Place) -> dict[str, object]:
        """Return the loan as the control surface shows it."""
        return {
            "reference": self.reference,
            "path": self.path,
            "product_id": self.product.product_id,
            "email": self.email,
            "phone_number": self.phone_number,
            "fate": self.fate,
            "opened_on": self.opened_on,
            "applied_on": place.application.day if place.application else None,
            "status": place.status,
            "reject_reason": place.reason,
        }

    def _user(self) -> dict[str, object]:
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
    """Every loan since the last reset."""

    loans: dict[str, Loan] = field(default_factory=dict)
    by_token: dict[str, Loan] = field(default_factory=dict)
    _offered: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def offer(self, product: Product, email: str, phone_number: str, day: int) -> Loan:
        """Open a loan; asked again for the same customer, the service opens another."""
        key = (product.product_id, email, phone_number)
        number = self._offered[key] = self._offered.get(key, 0) + 1
        draw = SeededRandom("loan", *key, str(number))
        loan = Loan(
            reference=_free(draw, 12, self.loans),
            token=_free(draw, 8, self.by_token).lower(),
            product=product,
            email=email,
            phone_number=phone_number,
            opened_on=day,
            fate=fate_of(product.product_id, email, phone_number),
        )
        self.loans[loan.reference] = self.by_token[loan.token] = loan
        return loan


def _free(draw: SeededRandom, length: int, taken: dict[str, Loan]) -> str:
    while True:
        text = "".join(draw.pick(_LETTERS) for _ in range(length))
        if text not in taken and text.lower() not in taken:
            return text
