"""The service's data about a person: one model for the record of each operation.

Reading is lenient, because the answer was paid for: null, numbers as text and dates with a time are
accepted. A specified field that cannot be read is None and stays in `extra` as received, together
with fields the specification does not name. No amount passes through a float.

`client/response_parser.py` reads JSON and envelopes; `results/` compares an answer with a row.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from nightscreen.schemas.clock import LAGOS

if TYPE_CHECKING:
    from collections.abc import Mapping


BLANK = (None, "")  # values without information; not added to `extra`

MOST_DIGITS = 30
"""No amount or count of the service has more; longer text is not read as a number."""

MOST_HELD = 10**17
"""Columns hold 18 digits before the point: one record's number must not stop the whole run."""

TRUE_WORDS = frozenset({"true", "yes", "y", "1", "match", "matched"})
FALSE_WORDS = frozenset({"false", "no", "n", "0", "no match", "mismatch"})
WORDED_DATES = ("%d-%b-%Y", "%d-%B-%Y")
"""The specification shows days as `YYYY-MM-DD`, and as `DD-Mon-YYYY` in one field."""


def read_text(value: object) -> str | None:
    """Return text without surrounding blanks; numbers become digits, other values None."""
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return str(value)
    return None


def read_number(value: object) -> Decimal | None:
    """Return an exact number from a JSON number or from text such as `₦1,250.00`.

    None if it has more digits than any of the service has.
    """
    if isinstance(value, str):
        value = value.replace(",", "").replace("₦", "").replace("%", "").strip()
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        return None
    try:
        number = Decimal(value)
    except InvalidOperation:
        return None
    if not number.is_finite() or (isinstance(value, str) and not value.isascii()):
        return None
    too_far = bool(number) and abs(number.adjusted()) > MOST_DIGITS
    too_long = len(number.as_tuple().digits) > 2 * MOST_DIGITS
    return None if too_far or too_long else number


def read_amount(value: object) -> Decimal | None:
    """Return an exact number that a column of amounts can hold; None for a larger one."""
    number = Decimal(value) if type(value) is int else read_number(value)  # most are integers
    return None if number is None or abs(number) >= MOST_HELD else number


def read_count(value: object) -> int | None:
    """Return a whole number that a column can hold; `3.0` is 3, `3.5` is None."""
    if type(value) is int:  # the usual case; a credit history has two dozen
        return value if abs(value) < MOST_HELD else None
    number = read_amount(value)
    if number is None or number != number.to_integral_value():
        return None
    return int(number)


def read_flag(value: object) -> bool | None:
    """Return a yes or no from a boolean, 0 and 1, or the usual words."""
    if isinstance(value, bool):
        return value
    text = (read_text(value) or "").casefold()
    if text in TRUE_WORDS:
        return True
    return False if text in FALSE_WORDS else None


def read_instant(value: object) -> datetime | None:
    """Return an instant in UTC; a time without a zone is taken as UTC."""
    text = read_text(value)
    if text is None:
        return None
    try:
        instant = datetime.fromisoformat(text)
        if instant.tzinfo is None:
            return instant.replace(tzinfo=UTC)
        return instant.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def read_date(value: object) -> date | None:
    """Return a calendar day; of a timestamp, the day in Lagos."""
    text = read_text(value)
    if text is None:
        return None
    with suppress(ValueError):
        return date.fromisoformat(text)
    instant = read_instant(text)
    if instant is None:
        for form in WORDED_DATES:
            with suppress(ValueError):
                return datetime.strptime(text, form).replace(tzinfo=UTC).date()
        return None
    try:
        return instant.astimezone(LAGOS).date()
    except OverflowError:
        return None


ACCOUNT_STATUSES = (
    *("active", "dormant", "closed", "post_no_debit"),
    *("post_no_credit", "inactive", "frozen", "other"),
)
"""Statuses of a bank account; the service sends the number, counted from 1."""


def read_account_status(value: object) -> str | None:
    """Return a bank account's status from its number or its name."""
    number = read_count(value)
    if number is not None and 1 <= number <= len(ACCOUNT_STATUSES):
        return ACCOUNT_STATUSES[number - 1]
    return "_".join((read_text(value) or "").casefold().replace("-", " ").split()) or None


Text = Annotated[str | None, BeforeValidator(read_text)]
AccountStatus = Annotated[str | None, BeforeValidator(read_account_status)]
Number = Annotated[Decimal | None, BeforeValidator(read_amount)]
Count = Annotated[int | None, BeforeValidator(read_count)]
Flag = Annotated[bool | None, BeforeValidator(read_flag)]
Instant = Annotated[datetime | None, BeforeValidator(read_instant)]
Day = Annotated[date | None, BeforeValidator(read_date)]


class Record(BaseModel):
    """The base of all records: frozen, masked in a repr, and no received field is lost."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)
    specified: ClassVar[frozenset[str]] = frozenset()
    # the field that says whose the record is; empty if there is none
    named_by: ClassVar[str] = ""

    # what the specification does not name, and what could not be read as specified
    extra: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def __pydantic_init_subclass__(cls, **_: object) -> None:
        fields = cls.model_fields.items()
        cls.specified = frozenset(name for name, field in fields if field.default is None)

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self:
        """Return the record of an object; unspecified and unreadable fields go to `extra`."""
        specified = {name: value for name, value in data.items() if name in cls.specified}
        record = cls.model_validate(specified)
        held = record.__dict__  # pydantic's attributes, read without a call for each
        record.extra.update(
            (name, value)
            for name, value in data.items()
            if name not in specified or (held[name] is None and value not in BLANK)
        )
        return record

    @classmethod
    def found_in(cls, data: object) -> Self | None:
        """Return the record of an object; None if it is no object, is blank, or names nobody."""
        record = cls.read(data) if isinstance(data, dict) else None
        return None if record is None or record.is_blank() or record.is_nameless() else record

    def __repr__(self) -> str:
        """Name the record without the person."""
        return f"{type(self).__name__}(***)"

    __str__ = __repr__

    def is_blank(self) -> bool:
        """Return whether no specified field was read."""
        return all(getattr(self, name) is None for name in self.specified)

    def is_nameless(self) -> bool:
        """Return whether the record should say whose it is, and does not."""
        name = getattr(self, self.named_by) if self.named_by else "not needed"
        return not any(char.isalnum() for char in name or "")

    def extra_json(self) -> str:
        """Return `extra` as JSON text; a number that a float cannot hold exactly becomes text."""
        return json.dumps(self.extra, ensure_ascii=False, sort_keys=True, default=_plain)


def _plain(value: object) -> float | str:
    if isinstance(value, Decimal) and Decimal(repr(float(value))) == value:
        return float(value)
    return str(value)


class BvnStarted(Record):
    """An OTP is on its way (specification, BVN initialization result)."""

    masked_contact: Text = None


class BvnAccount(Record):
    """One bank account of a BVN, listed with the details or instead of them."""

    account_name: Text = None
    account_number: Text = None
    bank_name: Text = None
    bank_code: Text = None
    # one of `ACCOUNT_STATUSES`, or another text from the service
    account_status: AccountStatus = None
    account_type: Text = None
    account_designation: Text = None


class BvnDetails(Record):
    """A consented BVN record (specification, BVN details), with the accounts linked to it."""

    reference: Text = None
    bvn: Text = None
    first_name: Text = None
    middle_name: Text = None
    last_name: Text = None
    dob: Day = None
    mobile: Text = None
    registration_date: Day = None
    enrollment_bank: Text = None
    email: Text = None
    gender: Text = None
    marital_status: Text = None
    residential_address: Text = None
    state_of_origin: Text = None
    watchlisted: Flag = None
    image_url: Text = None
    # some answers list accounts only
    accounts: tuple[BvnAccount, ...] = ()

    def is_blank(self) -> bool:
        """Return whether neither a specified field nor an account was read."""
        return not self.accounts and super().is_blank()

    def only_accounts(self) -> bool:
        """Return whether the answer was a list of accounts without the details."""
        return bool(self.accounts) and super().is_blank()


class LoanProduct(Record):
    """A product the organisation offers (specification, loan product)."""

    product_id: Text = None
    name: Text = None
    description: Text = None
    disburse_to: Text = None
    collection_method: Text = None
    interest_rate: Number = None
    interest_period: Text = None
    min_amount: Number = None
    max_amount: Number = None
    min_tenor_value: Count = None
    min_tenor_period: Text = None
    max_tenor_value: Count = None
    max_tenor_period: Text = None
    require_guarantor: Flag = None


@dataclass(frozen=True, slots=True)
class LoanProducts:
    """The list of products; empty if none is active."""

    products: tuple[LoanProduct, ...]

    def is_blank(self) -> bool:
        """Return False: an empty list is an answer."""
        return False


class LoanStarted(Record):
    """The short link to an application form, and the reference to track it by."""

    reference: Text = None
    url: Text = None


class LoanState(Record):
    """A loan or loan request; the nested status is flattened."""

    reference: Text = None
    status: Text = None  # the service's own; PENDING, RUNNING, SETTLED and CANCELLED were seen
    can_request: Flag = None
    can_cancel: Flag = None
    loan_amount: Number = None
    amount_disbursed: Number = None
    paid: Number = None
    reject_reason: Text = None
