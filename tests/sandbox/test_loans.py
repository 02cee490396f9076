"""Loans: products, links, what becomes of an offer, and who may ask."""

from __future__ import annotations

from decimal import Decimal

import pytest

from nightscreen.sandbox.test_identifiers import by_word
from tests.sandbox.in_process import Here


async def test_loan_moves_with_the_days_and_back() -> None:
    """Applied for, running, repaid month by month, settled: amounts add up on every day."""
    here = Here()
    reference = (await here.offer(email="clear@magic.example"))["reference"]
    first = await here.loan(reference)
    assert first["status"] == {"status": "PENDING", "can_request": True, "can_cancel": False}
    assert (first["loan_amount"], first["amount_disbursed"], first["paid"]) == (None, 0, 0)
    words, paid = [], [Decimal(0)]
    for day in range(0, 120, 3):
        await here.control("world", day=day)
        loan = await here.loan(reference)
        words.append(loan["status"]["status"])
        paid.append(Decimal(str(loan["paid"])))
    assert list(dict.fromkeys(words)) == ["PENDING", "RUNNING", "SETTLED"]
    assert paid == sorted(paid)
    assert loan["amount_disbursed"] == loan["loan_amount"]
    assert paid[-1] == Decimal(loan["loan_amount"]) * (100 + 4 * loan["tenor_value"]) / 100
    assert loan["settled_on"] > loan["disbursed_on"] > loan["created_on"]
    await here.control("world", day=0)
    assert await here.loan(reference) == first


@pytest.mark.parametrize(
    ("word", "ends", "applied", "reason"),
    [
        ("loan-rejected", "CANCELLED", True, True),
        ("loan-running", "PENDING", False, False),
        ("loan-never", "PENDING", False, False),
        ("loan-cancelled", "CANCELLED", True, False),
        ("loan-stuck", "PENDING", True, False),
        ("clear", "SETTLED", True, False),
    ],
)
async def test_magic_contacts_decide_the_fate(
    word: str, ends: str, applied: bool, reason: bool
) -> None:
    """Email and phone of a row choose what has become of the offer after a year."""
    here, row = Here(), by_word(word)
    for meta in ({"email": row.email}, {"phone_number": row.phone}):
        reference = (await here.offer(**meta))["reference"]
        await here.control("world", day=400)
        loan = await here.loan(reference)
        assert loan["status"]["status"] == ends
        assert (loan["loan_amount"] is not None) is applied
        assert (loan["reject_reason"] is not None) is reason
        await here.control("world", day=0)


async def test_control_surface_moves_a_loan() -> None:
    """What runs or is settled was lent; a running one goes on with the days, a closed one stays."""
    here = Here()
    for word, later in (
        ("PENDING", "PENDING"),
        ("RUNNING", "SETTLED"),
        ("SETTLED", "SETTLED"),
        ("CANCELLED", "CANCELLED"),
    ):
        reference = (await here.offer(email="loan-rejected@magic.example"))["reference"]
        reason = {"reject_reason": "Too many loans"} if word == "CANCELLED" else {}
        assert (await here.control(f"loans/{reference}", status=word, **reason))["status"] == word
        loan = await here.loan(reference)
        assert (loan["amount_disbursed"] > 0) is (word in ("RUNNING", "SETTLED"))
        assert loan["reject_reason"] == reason.get("reject_reason")
        assert here.sandbox.loans.loans[reference].place(200).status == later
        assert await here.refusal(f"loans/{reference}", {"status": "LOST"})
        assert await here.refusal(f"loans/{reference}", {"status": "RUNNING", "reject_reason": "x"})
    assert await here.refusal("loans/NOPE", {"status": "RUNNING"})
