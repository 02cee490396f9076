"""Borrower history (ecosystem): what lenders have reported about a person.

The fields of the specification and some thirty more, as a real record has them.
"""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import Final, NamedTuple

from nightscreen.sandbox import magic
from nightscreen.sandbox.draw import Draw
from nightscreen.sandbox.lives import BVN_DIGITS, FIRST_DAY, Person, is_digits, person_of_bvn, stamp

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
        extras: whether the fields that the specification does not show are there too.

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
        record.update(_unspecified(Draw("ecosystem extras", bvn), person, loans, record))
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


def _unspecified(
    draw: Draw, person: Person, loans: Loans, record: dict[str, object]
) -> dict[str, object]:
    last = FIRST_DAY - timedelta(days=draw.between(3, 300))
    declined = draw.below(9)
    return {
        "id": draw.between(1000, 9_999_999),
        "middle_name": person.middle_name or None,
        "gender": person.gender,
        "marital_status": person.marital_status,
        "state": person.state_of_origin,
        "dependents": draw.below(5),
        "education": draw.pick(("SSCE", "OND", "HND", "BSc", "MSc", None)),
        "employment_status": draw.pick(("Employed", "Self-employed", "Unemployed", "Student")),
        "employer": draw.pick((None, "Public service", "Private company")),
        "monthly_income_band": draw.pick(("0-50000", "50000-150000", "150000-500000", None)),
        "phone_numbers": draw.between(1, 3),
        "devices": draw.between(1, 5),
        "bank_accounts": draw.between(1, 5),
        **_requests(draw, loans, declined, last),
        "loan_amount_total": draw.between(10, 900) * 1000,
        "loan_amount_running": draw.between(0, 400) * 1000 if loans.running else 0,
        "average_tenor_days": draw.pick((14, 30, 60, 90, 180)),
        "longest_tenor_days": draw.pick((90, 180, 365)),
        "max_days_past_due": draw.between(1, 240) if loans.past_due else 0,
        "repayments": loans.settled + draw.below(20),
        "repayments_late": loans.delayed,
        "restructured_loans": draw.below(2),
        "score_band": draw.pick(("A", "B", "C", "D", None)),
        "has_photo": bool(draw.below(2)),
        "address_verified": bool(draw.below(2)),
        "updated_on": record["processed_on"],
    }


def _requests(draw: Draw, loans: Loans, declined: int, last: date) -> dict[str, object]:
    return {
        "loan_requests": loans.total + declined,
        "loan_requests_approved": loans.total,
        "loan_requests_declined": declined,
        "loan_requests_cancelled": draw.below(3),
        "loan_requests_pending": draw.below(2),
        "last_loan_request": stamp(last, draw),
        "last_loan_amount": draw.between(5, 300) * 1000,
        "last_repayment": stamp(last + timedelta(days=2), draw),
    }
