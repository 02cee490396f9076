"""What customers type into the hosted loan form: read, judged and brought to one form.

No HTML and no loans here: `sandbox.loan_html` writes the fields, `sandbox.loan_pages` acts on
what was filled in.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from nightscreen.sandbox.borrowers import contact_key, is_phone

if TYPE_CHECKING:
    from nightscreen.sandbox.products import Product

ABOUT_YOU: Final = ("first_name", "last_name", "date_of_birth", "email", "phone_number")
YOUR_LOAN: Final = ("amount", "tenor", "consent")

_ADULT: Final = 18
_LONGEST: Final = 80
_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_NEEDED: Final = {"first_name": "Enter your first name", "last_name": "Enter your last name"}


@dataclass(slots=True)
class Filled:
    """A form as it was sent.

    Attributes:
        values: what was typed, by field.
        errors: what is wrong with it, by field, in the order of the form.
        amount: naira, where it was right.
        tenor: periods of the product, where it was right.
    """

    values: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    amount: Decimal = Decimal(0)
    tenor: int = 0

    def value(self, name: str) -> str:
        """Return what was typed into a field, empty if nothing was."""
        return self.values.get(name, "")


def read_form(raw: bytes) -> Filled:
    """Read a submitted form; of a repeated field the first value counts, of a flood none."""
    try:
        pairs = parse_qs(raw.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=50)
    except ValueError:
        return Filled()
    return Filled({name: values[0].strip() for name, values in pairs.items()})


def judge_person(form: Filled, today: date) -> None:
    """Judge who somebody says they are, and bring contacts to the form they are known by."""
    for name, text in _NEEDED.items():
        if not form.value(name):
            form.errors[name] = text
        elif len(form.value(name)) > _LONGEST:
            form.errors[name] = f"Use at most {_LONGEST} letters"
    born = _day(form.value("date_of_birth"))
    if born is None:
        form.errors["date_of_birth"] = "Enter your date of birth"
    elif (today.year - born.year - ((today.month, today.day) < (born.month, born.day))) < _ADULT:
        form.errors["date_of_birth"] = f"You must be {_ADULT} or older to borrow"
    if not _EMAIL.fullmatch(form.value("email")) or len(form.value("email")) > _LONGEST:
        form.errors["email"] = "Enter an email address, such as ada@mail.example"
    form.values["phone_number"] = phone = contact_key(form.value("phone_number"))
    if not is_phone(phone):
        form.errors["phone_number"] = "Enter a phone number, such as 0803 123 4567"


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def judge_loan(form: Filled, product: Product) -> None:
    """Judge what loan somebody asks for, within the product's limits."""
    text = form.value("amount").replace(",", "").replace(" ", "").lstrip("₦Nn")
    try:
        amount = Decimal(text).quantize(Decimal("0.01"))
    except InvalidOperation:
        amount = Decimal(0)
    if amount.is_finite() and product.min_amount <= amount <= product.max_amount:
        form.amount = amount
    else:
        limits = f"₦{product.min_amount:,} to ₦{product.max_amount:,}"
        form.errors["amount"] = f"Enter an amount from {limits}"
    tenor = form.value("tenor")
    if tenor in {str(one) for one in product.tenors}:
        form.tenor = int(tenor)
    else:
        form.errors["tenor"] = "Choose for how long you want to borrow"
    if form.value("consent") != "yes":
        form.errors["consent"] = "Agree to the lender's checks to go on"
