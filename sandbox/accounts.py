"""Bank accounts: who holds an account, and the answers about accounts and BVN records.

The account lookup and the two shapes of a finished BVN consent live here; the people themselves
live in `sandbox.lives`.
"""

from __future__ import annotations

from typing import Final

from nightscreen.sandbox import magic
from nightscreen.sandbox.banks import (
    BANK_NAMES,
    BANKS_BY_WEIGHT,
    holder_of_serial,
    is_right_account,
)
from nightscreen.sandbox.banks import account_number as number_at
from nightscreen.sandbox.draw import Draw
from nightscreen.sandbox.lives import (
    LINKED_PREFIX,
    Person,
    bank_date,
    is_digits,
    person_of_bvn,
)

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
    """Tell who holds an account, or None where there is no such account.

    Args:
        bank_code: three digits.
        account_number: ten digits; a wrong check digit is an account that does not exist.
        day: day of the simulated world; on later days some accounts are gone.

    Raises:
        ValueError: the bank code has not 3 digits or the account number not 10.
    """
    if not is_digits(bank_code, BANK_CODE_DIGITS):
        raise ValueError("a bank code has 3 digits")
    if not is_digits(account_number, ACCOUNT_DIGITS):
        raise ValueError("an account number has 10 digits")
    if not is_right_account(bank_code, account_number):
        return None
    special = magic.by_account(account_number)
    if special:
        return _special_holder(special)
    draw = Draw("account", bank_code, account_number)
    share = draw.share()
    if share < MISSING_SHARE:
        return None
    if draw.share() < GONE_SHARE and draw.between(1, CHANGE_DAYS) <= day:
        return None
    if share < MISSING_SHARE + OTHER_SHARE:
        return person_of_bvn(f"{LINKED_PREFIX}{draw.below(10**9):09d}")
    holder = holder_of_serial(bank_code, int(account_number[:9]))
    return person_of_bvn(f"{LINKED_PREFIX}{holder:09d}")


def _special_holder(row: magic.Magic) -> Person | None:
    if row.account == "missing":
        return None
    return person_of_bvn(row.bvn if row.account == "own" else "22512345678")


def account_of(
    bank_code: str, account_number: str, *, day: int = 0, masked: bool = True
) -> dict[str, object] | None:
    """Tell what a bank account lookup answers (service.md, "Bank account verification result").

    Args:
        bank_code: three digits.
        account_number: ten digits.
        day: day of the simulated world.
        masked: whether the middle seven digits of the BVN are zero.

    Returns:
        The `data` of the answer, or None where the account does not exist.
    """
    person = holder_of(bank_code, account_number, day=day)
    if person is None:
        return None
    return {
        "bank_code": bank_code,
        "account_name": account_name(person, bank_code, account_number),
        "account_number": account_number,
        "bvn": masked_bvn(person.bvn) if masked else person.bvn,
    }


def masked_bvn(bvn: str) -> str:
    """Hide a BVN: first two and last two digits stay, the others are zero."""
    return f"{bvn[:2]}0000000{bvn[-2:]}"


def account_name(person: Person, bank_code: str, account_number: str) -> str:
    """Write a holder's name as this bank has it: mostly SURNAME FIRST MIDDLE in capitals."""
    first, middle, last = person.first_name, person.middle_name, person.last_name
    form = Draw("account name", bank_code, account_number).below(100)
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


def contacts_of(bvn: str) -> tuple[str, str]:
    """Tell phone and email registered with a BVN, to which one-time passwords are sent."""
    person = person_of_bvn(bvn)
    return f"0{person.phone[4:]}", person.email


def bvn_details(bvn: str) -> dict[str, object]:
    """Tell what a finished BVN consent answers (service.md, "BVN details")."""
    person = person_of_bvn(bvn)
    draw = Draw("bvn details", bvn)
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
    return _as_magic(details, magic.by_bvn(bvn))


def _as_magic(details: dict[str, object], row: magic.Magic | None) -> dict[str, object]:
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


def bvn_accounts(bvn: str) -> list[dict[str, object]]:
    """Tell what a finished BVN consent answers in its other shape, a list of bank accounts."""
    person, draw = person_of_bvn(bvn), Draw("account type", bvn)
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
    """Tell the one-time password that this customer receives.

    Args:
        bvn: 11 digits.
        number: the how-manieth password of this customer since the last reset; a new request
            brings another password.
    """
    first = Draw("one-time password", bvn).below(_OTPS)
    return f"{(first + (number - 1) * _OTP_STEP) % _OTPS:06d}"
