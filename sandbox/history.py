"""Borrower history (ecosystem): what lenders have reported about a person.

The fields of the specification, and those that were recorded beside them.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple

from nightscreen.sandbox import magic
from nightscreen.sandbox.draw import Draw
from nightscreen.sandbox.lives import BVN_DIGITS, FIRST_DAY, Person, is_digits, person_of_bvn, stamp

if TYPE_CHECKING:
    from datetime import date

FOUND_SHARE: Final = 0.60
FIRST_LOAN_SHARE: Final = 0.10
"""Share of unknown people whom a lender reports for the first time on some later day."""
PAST_DUE_SHARE: Final = 0.18
CHANGE_DAYS: Final = 30
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


def ecosystem_of(bvn: str, *, day: int = 0, extras: bool = True) -> dict[str, object] | None:
    """Tell what the borrower history holds on a person (service.md, "Ecosystem record").

    Args:
        bvn: 11 digits.
        day: day of the simulated world; on later days some people have their first loan.
        extras: whether the recorded fields that the specification does not show are there too.

    Returns:
        The `data` of the answer, or None where no lender has reported the person.

    Raises:
        ValueError: the BVN is not 11 digits.
    """
    if not is_digits(bvn, BVN_DIGITS):
        raise ValueError("a BVN has 11 digits")
    draw = Draw("ecosystem", bvn)
    special = magic.by_bvn(bvn)
    known = draw.share() < FOUND_SHARE
    first_loan_day = draw.between(1, CHANGE_DAYS) if draw.share() < FIRST_LOAN_SHARE else None
    if special:
        known = special.history != "none"
    elif not known:
        known = first_loan_day is not None and first_loan_day <= day
    if not known:
        return None
    person = person_of_bvn(bvn)
    loans = _loans(draw, bad=special.history == "bad" if special else None)
    record = _specified(draw, person, loans, day)
    if extras:
        record.update(_recorded(Draw("ecosystem extras", bvn), person, loans, record))
    return record


def _loans(draw: Draw, *, bad: bool | None) -> Loans:
    drawn_bad = draw.share() < PAST_DUE_SHARE
    is_bad = drawn_bad if bad is None else bad
    past_due = draw.between(1, 3) if is_bad else 0
    settled = draw.between(1, 14)
    running = past_due + draw.below(3)
    return Loans(settled, running, past_due, min(settled, draw.below(4)))


def _naira(draw: Draw, low: int, high: int) -> Decimal:
    return Decimal(draw.between(low, high)).scaleb(2) + Decimal(draw.pick((0, 0, 0, 50)))


def _specified(draw: Draw, person: Person, loans: Loans, day: int) -> dict[str, object]:
    today = FIRST_DAY + timedelta(days=day)
    first = FIRST_DAY - timedelta(days=draw.between(400, 2400))
    last = FIRST_DAY - timedelta(days=draw.between(3, 380))
    smallest = _naira(draw, 50, 400)
    largest = smallest + _naira(draw, 100, 9000)
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
        "past_due_loan_amount_due": _naira(draw, 20, 3000) * loans.past_due,
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
    draw: Draw, person: Person, loans: Loans, specified: dict[str, object]
) -> dict[str, object]:
    """Fill the fields that were recorded beside the specified ones."""
    average = Decimal(str(specified["loan_amount_average"]))
    settled, running = (average * count for count in (loans.settled, loans.running))
    requests = loans.total + draw.below(9)
    trials = [draw.between(1, 6) for _ in range(loans.delayed)]
    penalty = Decimal(draw.below(40) * 500 if loans.delayed or loans.past_due else 0)
    first = FIRST_DAY - timedelta(days=draw.between(400, 2400))
    last = FIRST_DAY - timedelta(days=draw.between(3, 380))
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
        "penalty_paid": penalty if not loans.past_due else Decimal(0),
        "delayed_paid_loan_amount": average * loans.delayed,
        "delayed_paid_loans_trials": sum(trials),
        "delayed_paid_loans_avg": (Decimal(sum(trials)) / max(1, len(trials))).quantize(CENT),
        "delayed_paid_loans_trials_max": max(trials, default=0),
        "delayed_paid_loans_trials_min": min(trials, default=0),
        "first_loan_date": stamp(first, draw),
        "last_loan_date": stamp(last, draw),
        "loan_requests": requests,
        "failed_loan_requests": requests - loans.total,
        "unique_login_ips": draw.between(1, 40),
        "unique_device_ids": devices,
        "distinct_mobile_os": min(devices, draw.between(1, 2)),
        "duplicated_devices": draw.pick((0, 0, 0, 1, 2)),
        "shared_device_users": draw.pick((0, 0, 0, 0, 1, 3)),
    }
