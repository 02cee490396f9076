"""Requests for BVN consent in the journal, on both databases."""

from __future__ import annotations

from datetime import timedelta

from nightscreen.config.settings import BvnConsent
from nightscreen.journal import Journal
from nightscreen.operations.bvn import recover_requests
from nightscreen.operations.bvn_table import requests_of
from nightscreen.schemas.bvn import BvnRequest, BvnState
from nightscreen.schemas.clock import span_micros


def request(number: int, **changes: object) -> BvnRequest:
    made = BvnRequest(
        key=(bytes([number]) * 16).hex(),
        customer=b"c" * 15 + bytes([number]),
        subject=b"s" * 15 + bytes([number]),
        batch="applicants",
        run_id="run-1",
        consent_reference="CNS-1",
        consent_ends_at=10**15,
        state=BvnState.AWAITING_OTP,
        at=1000 + number,
        customer_id=f"C{number}",
        bvn=f"22{number:09d}",
        contact="+2348031234567",
        first_name="Ada",
    )
    return made.model_copy(update=changes)


def test_only_what_waits_is_abandoned(journal: Journal) -> None:
    """Those that ended, are younger, or have a password under way stay as they are."""
    now, kept = journal.clock(), requests_of(journal)
    day = span_micros(timedelta(days=1))
    under_way = f"single@{journal.holders.name}"
    kept.add(
        [
            request(1),
            request(2, state=BvnState.CONFIRMED),
            request(3, at=now - day + 60_000_000),
            request(4, finishing=under_way),
        ]
    )
    recover_requests(journal, BvnConsent())
    states = [each.state for each in kept.all(batch="applicants")]
    assert states == ["abandoned", "confirmed", "awaiting_otp", "awaiting_otp"]


def test_calls_of_the_dead_alone_are_learnt(journal: Journal) -> None:
    """A request is free again where nothing was sent for it; the newest of a customer counts."""
    kept = requests_of(journal)
    at = journal.clock()
    kept.add([request(1, at=at, finishing="run-2"), request(2, at=at, state=BvnState.REQUESTED)])
    newer = request(9, at=at, customer=request(1).customer, finishing=f"x@{journal.holders.name}")
    kept.add([newer])
    recover_requests(journal, BvnConsent())
    assert [each.finishing for each in kept.all()] == [None, newer.finishing]
    assert kept.newest([newer.customer]) == {newer.customer: newer}
