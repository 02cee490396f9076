"""People: one stable life for every well-formed BVN.

Who a person is lives here. What the service says about them lives in `accounts`, `blacklist`,
`history` and `likeness`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import NamedTuple

from nightscreen.sandbox import magic
from nightscreen.sandbox.banks import BANKS_BY_WEIGHT, account_number, serial_of_holder
from nightscreen.sandbox.draw import Draw
from nightscreen.sandbox.names import ENGLISH_MEN, ENGLISH_WOMEN, STOCKS

FIRST_DAY = date(2026, 7, 1)
"""Day 0 of the simulated world: ages and dates are counted from here."""

BVN_DIGITS = 11
LINKED_PREFIX = "22"
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
    """Where a person banks."""

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
    """Tell whether a text is exactly so many plain digits."""
    return len(text) == length and text.isascii() and text.isdigit()


def person_of_bvn(bvn: str) -> Person:
    """Tell who bears a BVN.

    BVNs that begin with 22 are linked: looking up the person's account gives the person back,
    but for the few accounts that are missing or somebody else's.

    Args:
        bvn: 11 digits (service.md, "What the service does", 5).

    Raises:
        ValueError: the BVN is not 11 digits.
    """
    if not is_digits(bvn, BVN_DIGITS):
        raise ValueError("a BVN has 11 digits")
    draw = Draw("person", bvn)
    woman = draw.below(2) == 1
    first, middle, last = _name(draw, woman=woman)
    born = FIRST_DAY - timedelta(days=draw.between(21 * 365, 68 * 365))
    special = magic.by_bvn(bvn)
    bank_code = magic.BANK_CODE if special else draw.pick(BANKS_BY_WEIGHT)
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


def _name(draw: Draw, *, woman: bool) -> tuple[str, str, str]:
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


def _mail_name(draw: Draw, first: str, last: str) -> str:
    number = draw.below(1000)
    form = draw.below(4)
    plain = (f"{first}.{last}", f"{first}{last}{number}", f"{last}.{first}", f"{first}+{last}")
    return plain[form].lower()


def stamp(day: date, draw: Draw) -> str:
    """Write a day with a drawn time of day as an ISO 8601 timestamp."""
    seconds = draw.below(86_400)
    hours, rest = divmod(seconds, 3600)
    return f"{day.isoformat()}T{hours:02d}:{rest // 60:02d}:{rest % 60:02d}.000Z"


def bank_date(day: date) -> str:
    """Write a day as DD-Mon-YYYY, the form of a registration date."""
    return f"{day.day:02d}-{MONTHS[day.month - 1]}-{day.year}"
