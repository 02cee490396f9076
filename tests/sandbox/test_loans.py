"""Loans: products, links, what becomes of an offer, and who may ask."""

from __future__ import annotations

import pytest

from nightscreen.sandbox.test_identifiers import by_word
from tests.sandbox.in_process import Here


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
