"""The loan book of area C: products, offers, and what becomes of a loan.

The state of a loan on a simulated day is computed, never stored, so that the simulated day can be
changed freely. It depends on the day on which the customer fills in the form, and on their fate.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple

from nightscreen.sandbox import test_identifiers
from nightscreen.sandbox.fiction import FICTION, SeededRandom
from nightscreen.sandbox.people import FIRST_DAY, contact_key, person_of_bvn, stamp

if TYPE_CHECKING:
    from nightscreen.sandbox.people import Record
    from nightscreen.sandbox.test_identifiers import MagicPerson

_KOBO: Final = Decimal("0.01")
_DAYS: Final = {"day": 1, "month": 30}
_FATES: Final = (
    *(("never",) * 12 + ("rejected",) * 10 + ("cancelled",) * 4 + ("stuck",) * 2),
    *("approved",) * 72,
)
"""What becomes of a hundred offers, of those who have no running loan already."""
_RUNNING_PCT: Final = 4  # of contacts have a running loan already
_LATEST_ANSWER: Final = 4  # days after the offer
_LETTERS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


class Product(NamedTuple):
    """One loan product (service.md, "Loan product")."""

    product_id: str
    name: str
    description: str
    rate: str  # percent for each period, on the amount lent
    amounts: tuple[int, int]  # smallest and largest loan, naira
    tenors: tuple[int, ...]  # the choices of length, in periods, shortest first
    period: str = "month"  # or `day`, of interest and tenor
    hides_periods: bool = False  # its line of the list does not say which periods
    own: Record | None = None  # how its line differs from the others'

    def as_json(self) -> Record:
        """Return the product as the list of products shows it."""
        period = None if self.hides_periods else self.period
        return {
            "product_id": self.product_id,
            "name": self.name,
            "description": self.description,
            "disburse_to": "bank_account",
            "collection_method": "direct_debit",
            "interest_rate": Decimal(self.rate),
            "interest_period": period,
            "min_amount": self.amounts[0],
            "max_amount": self.amounts[1],
            "min_tenor_value": self.tenors[0],
            "min_tenor_period": period,
            "max_tenor_value": self.tenors[-1],
            "max_tenor_period": period,
            "require_guarantor": 0,
            "allows_early_settlement": 1,
            "is_active": 1,
            **(self.own or {}),
        }


PRODUCTS: Final = {each["product_id"]: Product(**each) for each in FICTION["products"]}


def magic_person(*contacts: str) -> MagicPerson | None:
    """Return the magic identifier that one of some contacts belongs to, or None."""
    keys = [contact_key(each) for each in contacts]
    rows = (test_identifiers.by_karma_identity(key) for key in keys if key[:1] == "+" or "@" in key)
    return next(filter(None, rows), None)


def fate_of(product_id: str, email: str = "", phone_number: str = "") -> str:
    """Return what becomes of an offer, the same for the same customer.

    Returns:
        `approved`, `rejected`, `running` (does not apply), `never` (likewise), `cancelled` or
        `stuck`.
    """
    row = magic_person(email, phone_number)
    contact = contact_key(email) or contact_key(phone_number)
    if row or not contact:
        return row.loan if row else "approved"
    if SeededRandom("borrower", contact).below(100) < _RUNNING_PCT:
        return "running"
    return SeededRandom("loan fate", product_id, contact).pick(_FATES)


class Place(NamedTuple):
    """The state of a loan on a day: PENDING, RUNNING, SETTLED or CANCELLED."""

    status: str
    applied: bool = True  # whether the form is filled in
    disbursed_on: int | None = None
    settled_on: int | None = None
    paid: Decimal = Decimal(0)  # naira paid back so far


@dataclass(slots=True)
class Loan:
    """One offer of one product, and the loan that it may become."""

    reference: str
    product: Product
    email: str  # as in `meta`, or empty
    phone_number: str
    opened_on: int  # day of the simulated world
    fate: str  # see `fate_of`
    # day on which the customer fills in the form, unless their fate is never to do so
    applied_on: int = field(init=False)
    amount: Decimal = field(init=False)  # naira that the customer asks for
    tenor: int = field(init=False)  # for so many periods of the product

    def __post_init__(self) -> None:
        draw = SeededRandom("loan application", self.reference)
        low, high = self.product.amounts
        self.applied_on = self.opened_on + draw.between(1, _LATEST_ANSWER)
        self.amount = Decimal(low + 1000 * draw.between(0, (high - low) // 1000))
        self.tenor = draw.pick(self.product.tenors)

    @property
    def url(self) -> str:
        """The link to its form, which does not exist: the sandbox's customers need none."""
        return f"https://loans.example/l/{self.reference}"

    def place(self, day: int) -> Place:
        """Return the state of the loan on a simulated day."""
        decided = self.applied_on + 1
        if self.fate in ("never", "running") or day < self.applied_on:
            return Place("PENDING", applied=False)
        if day < decided or self.fate == "stuck":
            return Place("PENDING")
        if self.fate in ("cancelled", "rejected"):
            return Place("CANCELLED")
        # paid back month by month, or at once where its periods are days
        product = self.product
        due = decided + self.tenor * _DAYS[product.period]
        whole = (self.amount * (1 + Decimal(product.rate) * self.tenor / 100)).quantize(_KOBO)
        if day >= due:
            return Place("SETTLED", disbursed_on=decided, settled_on=due, paid=whole)
        parts = self.tenor if product.period == "month" else 1
        length = (due - decided) // parts
        paid = (whole * ((day - decided) // length) / parts).quantize(_KOBO)
        return Place("RUNNING", disbursed_on=decided, paid=paid)

    def as_json(self, day: int) -> Record:
        """Return the loan as the service shows it (service.md, "Loan or loan request")."""
        place = self.place(day)
        is_pending, applied = place.status == "PENDING", place.applied
        is_refused = place.status == "CANCELLED" and self.fate == "rejected"
        row = magic_person(self.email, self.phone_number)
        contact = contact_key(self.email) or contact_key(self.phone_number) or self.reference
        number = SeededRandom("borrower person", contact).below(10**9)
        person = person_of_bvn(row.bvn if row else f"22{number:09d}")
        return {
            "reference": self.reference,
            "product_id": self.product.product_id,
            "product_name": self.product.name,
            "status": {
                "status": place.status,
                "can_request": is_pending and not applied,
                "can_cancel": is_pending and applied,
            },
            "loan_amount": self.amount if applied else None,
            "amount_disbursed": 0 if place.disbursed_on is None else self.amount,
            "paid": place.paid,
            "tenor_value": self.tenor if applied else None,
            "tenor_period": self.product.period,
            "reject_reason": (
                SeededRandom("reject reason", self.reference).pick(
                    FICTION["loans"]["reject_reasons"]
                )
                if is_refused
                else None
            ),
            "user": {  # known by name once the form is filled in
                "first_name": person.first_name if applied else None,
                "last_name": person.last_name if applied else None,
                "email": self.email or (person.email if applied else None),
                "phone_number": self.phone_number or (person.phone if applied else None),
            },
            "created_on": self._moment(self.opened_on),
            "applied_on": self._moment(self.applied_on if applied else None),
            "disbursed_on": self._moment(place.disbursed_on),
            "settled_on": self._moment(place.settled_on),
        }

    def _moment(self, day: int | None) -> str | None:
        if day is None:
            return None
        draw = SeededRandom("loan moment", self.reference, str(day))
        return stamp(FIRST_DAY + timedelta(days=day), draw)


@dataclass(slots=True)
class LoanBook:
    """Every loan since the last reset."""

    loans: dict[str, Loan] = field(default_factory=dict)  # by reference
    _offered: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def offer(self, product: Product, email: str, phone_number: str, day: int) -> Loan:
        """Open a loan; asked again for the same customer, the service opens another."""
        key = (product.product_id, email, phone_number)
        self._offered[key] += 1
        draw = SeededRandom("loan", *key, str(self._offered[key]))
        reference = "".join(draw.pick(_LETTERS) for _ in range(12))
        loan = Loan(reference, product, email, phone_number, day, fate_of(*key))
        self.loans[reference] = loan
        return loan

    def shown(self, day: int, wanted: str | None = None) -> list[Record]:
        """Return the loans, or one of them, as the control surface shows them."""
        names = ("reference", "url", "email", "phone_number", "fate", "opened_on")
        return [
            {
                **{name: getattr(loan, name) for name in names},
                "product_id": loan.product.product_id,
                "status": loan.place(day).status,
            }
            for loan in self.loans.values()
            if wanted in (None, loan.reference)
        ]
