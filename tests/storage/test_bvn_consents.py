"""Requests for BVN consent in the journal, on both databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nightscreen.journal.bvn_consents import BvnConsents
from nightscreen.schemas.bvn import BvnRequest, BvnState, Doubt, HeldCustomer

if TYPE_CHECKING:
    from nightscreen.journal import Journal


def request(number: int, **changes: object) -> BvnRequest:
    """Return a request of a made-up customer."""
    held = HeldCustomer(f"C{number}", f"22{number:09d}", "+2348031234567", first_name="Ada")
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
        held=held,
    )
    return made.model_copy(update=changes)


def test_request_comes_back_as_it_was_written(journal: Journal) -> None:
    """All fields survive, also once they have changed."""
    consents = BvnConsents.of(journal)
    consents.add([request(1), request(2)])
    changed = request(1, state=BvnState.WRONG_OTP, attempts=2, doubt=Doubt.FINISH, cost_micro=5)
    consents.put(changed)
    assert consents.find(changed.request_id) == changed
    assert consents.of_batches({"applicants"}) == [changed, request(2)]


def test_newest_request_of_a_customer_counts(journal: Journal) -> None:
    """An earlier one is kept, and counts again where the newer comes to nothing."""
    consents = BvnConsents.of(journal)
    newer = request(9, customer=request(1).customer)
    consents.add([request(1), newer])
    assert consents.current([newer.customer]) == {newer.customer: newer}
    assert consents.of_batches({"applicants"}) == [newer]
    assert len(consents.of_customers([newer.customer])) == 2
    consents.drop(newer)
    assert consents.current([newer.customer])[newer.customer] == request(1)


def test_request_is_claimed_once(journal: Journal) -> None:
    """Of two who want to send a password for it, one may; so too where it has changed meanwhile."""
    consents = BvnConsents.of(journal)
    consents.add([request(1)])
    assert consents.claim(request(1), "run-2")
    assert not consents.claim(request(1), "run-3")
    assert [each.finishing for each in consents.under_way()] == ["run-2"]
    consents.put(request(1, attempts=1))
    assert not consents.claim(request(1), "run-3")
    assert consents.claim(request(1, attempts=1), "run-3")


def test_only_what_waits_is_abandoned(journal: Journal) -> None:
    """Those that ended, are younger, or have a password under way stay as they are."""
    consents = BvnConsents.of(journal)
    consents.add(
        [
            request(1),
            request(2, state=BvnState.CONFIRMED),
            request(3, at=5000),
            request(4, finishing="run-2"),
        ]
    )
    assert consents.abandon(4000, 6000) == 1
    states = [each.state for each in consents.of_batches({"applicants"})]
    assert states == ["abandoned", "confirmed", "awaiting_otp", "awaiting_otp"]
