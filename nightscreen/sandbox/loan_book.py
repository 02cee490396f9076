"""The loan book of area C: products, offers, and what becomes of a loan.

Where a loan stands on a day of the simulated world is worked out, never stored, so that the world
can be moved freely: from the customer's fate, the form filled in by hand, and the control surface.
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

WORDS: Final = ("PENDING", "RUNNING", "SETTLED", "CANCELLED")
"""The states of a loan, as the service has them."""
FATES: Final = ("approved", "rejected", "running", "never", "cancelled", "stuck")
"""What becomes of an offer: see the loan rows of `sandbox.test_identifiers`."""
SHORT_LINK: Final = "/l"
"""The path of all short links, below the sandbox's own address."""

_DAYS: Final = {"day": 1, "month": 30}
_REASONS: Final = (
    "Income could not be confirmed",
    "Too many loans with other lenders",
    "The account is not in the applicant's name",
)
_RUNNING_PCT: Final = 4  # of contacts have a running loan already
_FATES_PCT: Final = (("never", 12), ("rejected", 10), ("cancelled", 4), ("stuck", 2))
_LATEST_ANSWER: Final = 4  # days after the offer
_LETTERS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
KOBO: Final = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class Product:
    """One loan product (service.md, "Loan product")."""

    product_id: str
    name: str
    description: str
    disburse_to: str
    collection_method: str
    interest_rate: Decimal  # percent for each period, on the amount lent
    period: str  # `day` or `month`, of interest and tenor
    amounts: tuple[int, int]  # smallest and largest loan, naira
    tenors: tuple[int, ...]  # the choices of length, in periods, shortest first
    guarantor: int = 0
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
            "min_amount": self.amounts[0],
            "max_amount": self.amounts[1],
            "min_tenor_value": self.tenors[0],
            "min_tenor_period": period,
            "max_tenor_value": self.tenors[-1],
            "max_tenor_period": period,
            "require_guarantor": self.guarantor,
            "allows_early_settlement": 1,
            "is_active": 1,
        }


PRODUCTS: Final = (
    Product(
        "LP1001",
        "Salary advance",
        "Part of your next salaries, today.",
        "bank_account",
        "direct_debit",
        Decimal(4),
        "month",
        amounts=(5_000, 150_000),
        tenors=(1, 2, 3),
    ),
    Product(
        "LP1002",
        "Quick loan",
        "A small loan for a few weeks.",
        "bank_account",
        "card",
        Decimal("0.5"),
        "day",
        amounts=(2_000, 50_000),
        tenors=(7, 14, 21, 30),
    ),
    Product(
        "LP1003",
        "School fees",
        "Fees paid at the start of term, repaid over it.",
        "school",
        "direct_debit",
        Decimal("2.75"),
        "month",
        amounts=(20_000, 500_000),
        tenors=(3, 4, 5, 6),
    ),
    Product(
        "LP1004",
        "Device finance",
        "A phone or a computer, paid for month by month.",
        "merchant",
        "card",
        Decimal("3.5"),
        "month",
        amounts=(50_000, 1_500_000),
        tenors=(3, 6, 9, 12),
        guarantor=1,
        shows_period=False,
    ),
)


def magic_person(*contacts: str) -> MagicPerson | None:
    """Return the magic identifier that one of some contacts belongs to, or None."""
    for contact in map(contact_key, contacts):
        row = test_identifiers.by_karma_identity(contact)
        if row and ("@" in contact or is_phone(contact)):
            return row
    return None


def fate_of(product_id: str, email: str = "", phone_number: str = "") -> str:
    """Return what becomes of an offer, a word of `FATES`: the same for the same customer."""
    row = magic_person(email, phone_number)
    contact = contact_key(email) or contact_key(phone_number)
    if row or not contact:
        return row.loan if row else "approved"
    if SeededRandom("borrower", contact).below(100) < _RUNNING_PCT:
        return "running"
    chance = SeededRandom("loan fate", product_id, contact).below(100)
    for word, share in _FATES_PCT:
        if chance < share:
            return word
        chance -= share
    return "approved"


@dataclass(frozen=True, slots=True)
class Application:
    """What a customer asked for on the form, by hand or played by the sandbox."""

    user: dict[str, object]  # who applied, as a loan shows its user
    day: int
    amount: Decimal  # naira
    tenor: int  # periods of the product


@dataclass(frozen=True, slots=True)
class Place:
    """Where a loan stands on a day."""

    status: str  # one of `WORDS`
    application: Application | None = None  # None while the form is not filled in
    disbursed_on: int | None = None
    settled_on: int | None = None
    reason: str | None = None  # why it was turned down
    paid: Decimal = Decimal(0)  # naira paid back so far

    @property
    def can_request(self) -> bool:
        """Whether the form can be filled in."""
        return self.application is None and self.status == "PENDING"


@dataclass(slots=True)
class Loan:
    """One offer of one product, and the loan that it may become."""

    reference: str
    token: str  # the last part of the short link
    product: Product
    email: str  # as in `meta`, or empty
    phone_number: str
    opened_on: int  # day of the simulated world
    fate: str  # a word of `FATES`
    application: Application | None = None  # what was filled in by hand
    steered: tuple[int, str, str | None] | None = None  # day, status and reason, by control

    @property
    def path(self) -> str:
        """The path of its short link, below the sandbox's own address."""
        return f"{SHORT_LINK}/{self.token}"

    def _played(self) -> Application:
        """Make the application that the sandbox's customer fills in on the customer's own day."""
        draw = SeededRandom("loan application", self.reference)
        low, high = self.product.amounts
        day = self.opened_on + draw.between(1, _LATEST_ANSWER)
        amount = Decimal(low + 1000 * draw.between(0, (high - low) // 1000))
        tenor = draw.pick(self.product.tenors)
        row = magic_person(self.email, self.phone_number)
        contact = contact_key(self.email) or contact_key(self.phone_number) or self.reference
        number = SeededRandom("borrower person", contact).below(10**9)
        person = person_of_bvn(row.bvn if row else f"22{number:09d}")
        contacts = self.email or person.email, self.phone_number or person.phone
        user = user_of_contact(person.first_name, person.last_name, *contacts)
        return Application(user, day, amount, tenor)

    def place(self, day: int) -> Place:
        """Return where the loan stands on a day of the simulated world."""
        if self.steered and day >= self.steered[0]:
            return self._where_steered(day, *self.steered)
        application = self.application
        if application is None and self.fate not in ("never", "running"):
            application = self._played()
        if application is None or day < application.day:
            return Place("PENDING")
        decided = application.day + 1
        if day < decided or self.fate == "stuck":
            return Place("PENDING", application)
        if self.fate in ("cancelled", "rejected"):
            reason = SeededRandom("reject reason", self.reference).pick(_REASONS)
            rejected = self.fate == "rejected"
            return Place("CANCELLED", application, reason=reason if rejected else None)
        return self._repaying(day, application, decided)

    def _repaying(self, day: int, application: Application, disbursed: int) -> Place:
        """Pay a loan back month by month, or at once where its periods are days."""
        product, tenor = self.product, application.tenor
        due = disbursed + tenor * _DAYS[product.period]
        whole = self._repayable(application)
        if day >= due:
            return Place("SETTLED", application, disbursed, due, paid=whole)
        parts = tenor if product.period == "month" else 1
        length = (due - disbursed) // parts
        paid = (whole * ((day - disbursed) // length) / parts).quantize(KOBO)
        return Place("RUNNING", application, disbursed, paid=paid)

    def _repayable(self, application: Application) -> Decimal:
        rate = 1 + self.product.interest_rate * application.tenor / 100
        return (application.amount * rate).quantize(KOBO)

    def steer(self, day: int, status: str, reason: str | None) -> None:
        """Put the loan where the control surface wants it, from a day on.

        A loan that runs or is settled has been applied for: the application is played where
        there is none.
        """
        applied = self.place(day).application
        if applied is None and status in ("RUNNING", "SETTLED"):
            applied = replace(self._played(), day=day)
        self.application, self.steered = applied, (day, status, reason)

    def _where_steered(self, day: int, since: int, status: str, reason: str | None) -> Place:
        application = self.application
        if application and status == "RUNNING":  # it goes on to be paid back from there
            return self._repaying(day, application, since)
        if application and status == "SETTLED":
            paid = self._repayable(application)
            return Place(status, application, application.day, since, paid=paid)
        return Place(status, application, reason=reason)

    def as_json(self, day: int) -> dict[str, object]:
        """Return the loan as the service shows it (service.md, "Loan or loan request")."""
        place = self.place(day)
        application = place.application
        lent = application.amount if application and place.disbursed_on is not None else 0
        unknown = user_of_contact(None, None, self.email or None, self.phone_number or None)
        return {
            "reference": self.reference,
            "product_id": self.product.product_id,
            "product_name": self.product.name,
            "status": {
                "status": place.status,
                "can_request": place.can_request,
                "can_cancel": application is not None and place.status == "PENDING",
            },
            "loan_amount": application.amount if application else None,
            "amount_disbursed": lent,
            "paid": place.paid,
            "tenor_value": application.tenor if application else None,
            "tenor_period": self.product.period,
            "reject_reason": place.reason,
            "user": application.user if application else unknown,
            "created_on": self._moment(self.opened_on),
            "applied_on": self._moment(application.day) if application else None,
            "disbursed_on": self._moment(place.disbursed_on),
            "settled_on": self._moment(place.settled_on),
        }

    def shown(self, day: int) -> dict[str, object]:
        """Return the loan as the control surface shows it."""
        place = self.place(day)
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

    def _moment(self, day: int | None) -> str | None:
        if day is None:
            return None
        draw = SeededRandom("loan moment", self.reference, str(day))
        return stamp(FIRST_DAY + timedelta(days=day), draw)


def user_of_contact(
    first_name: str | None, last_name: str | None, email: str | None, phone_number: str | None
) -> dict[str, object]:
    """Return who a loan is for, as the service has it."""
    return {
        "first_name": first_name,
        "last_name": last_name,
        "email": email,
        "phone_number": phone_number,
    }


@dataclass(slots=True)
class LoanBook:
    """Every loan since the last reset."""

    loans: dict[str, Loan] = field(default_factory=dict)  # by reference
    by_token: dict[str, Loan] = field(default_factory=dict)
    _offered: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def offer(self, product: Product, email: str, phone_number: str, day: int) -> Loan:
        """Open a loan; asked again for the same customer, the service opens another."""
        key = (product.product_id, email, phone_number)
        number = self._offered[key] = self._offered.get(key, 0) + 1
        draw = SeededRandom("loan", *key, str(number))
        names = _free(draw, 12, self.loans), _free(draw, 8, self.by_token).lower()
        loan = Loan(*names, product, email, phone_number, day, fate_of(*key))
        self.loans[loan.reference] = self.by_token[loan.token] = loan
        return loan


def _free(draw: SeededRandom, length: int, taken: dict[str, Loan]) -> str:
    while True:
        text = "".join(draw.pick(_LETTERS) for _ in range(length))
        if text not in taken and text.lower() not in taken:
            return text
