"""Offers in the journal, on both databases: one writer for each, each view written once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nightscreen.journal.loan_offers import LoanOffers
from nightscreen.journal.verify import verify_journal
from nightscreen.schemas.offers import HeldOffer, LinkState, LoanNews, LoanSnapshot, Offer
from tests.storage.conftest import subject

if TYPE_CHECKING:
    from tests.storage.conftest import Place

PRODUCT = "LP1"


def offer(number: int, **changes: object) -> Offer:
    """Return an offer to a customer."""
    plain = Offer(
        subject=subject(number),
        customer=subject(100 + number),
        batch="borrowers",
        product_id=PRODUCT,
        number=1,
        run_id="run-1",
        source_run_id="run-0",
        decision="approve",
        state=LinkState.STARTING,
        at=1,
        held=HeldOffer(customer_id=f"C{number}", email="somebody@mail.example"),
    )
    return plain.model_copy(update=changes)


def test_only_one_of_two_can_claim_an_offer(place: Place) -> None:
    """Whoever comes second may not send, and changes nothing."""
    first, second = (LoanOffers.of(place.open()) for _ in range(2))
    assert first.claim([offer(1), offer(2)]) == {subject(1), subject(2)}
    late = [offer(2, run_id="run-2"), offer(3, run_id="run-2")]
    assert second.claim(late) == {subject(3)}
    found = first.newest([subject(101), subject(102), subject(103)], PRODUCT)
    assert [each.run_id for each in found.values()] == ["run-1", "run-1", "run-2"]
    assert first.newest([subject(101)], "LP2") == {}
    assert first.claim([]) == set()


def test_offer_comes_back_as_it_was(place: Place) -> None:
    """What is sealed opens again, and only what is starting can be dropped."""
    store = LoanOffers.of(place.open())
    held = HeldOffer("C1", reference="R1", url="https://l.example/1", seen=LoanSnapshot("PENDING"))
    whole = offer(1, state=LinkState.OFFERED, loan=subject(9), offered_at=5, held=held)
    store.claim([offer(1)])
    store.put([whole])
    store.drop([whole])
    assert store.linked() == [whole]
    assert store.starting() == []
    store.claim([offer(2)])
    store.drop([offer(2)])
    assert store.of_customers([subject(102)]) == []


def test_view_is_written_once(place: Place) -> None:
    """Of two who saw the same, one writes and tells it."""
    journal = place.open()
    store, other = LoanOffers.of(journal), LoanOffers.of(place.open())
    linked = offer(1, state=LinkState.OFFERED, loan=subject(9), offered_at=5)
    store.claim([offer(1)])
    store.put([linked])
    seen = LoanSnapshot(status="PENDING")
    after = linked.model_copy(
        update={"status": "PENDING", "followed_at": 7, "held": replace(linked.held, seen=seen)}
    )
    news = LoanNews(subject=subject(1), customer=linked.customer, run_id="run-2", at=7, now=seen)
    assert store.follow([(linked, after, news)]) == {subject(1)}
    assert other.follow([(linked, after.model_copy(update={"followed_at": 8}), news)]) == set()
    assert store.linked() == [after]
    assert store.news_of("run-2") == [news]
    assert store.telling() == ["run-2"]
    assert other.hand_over(["run-2"], "run-3") == 1
    assert [each.run_id for each in store.history([subject(1)])[subject(1)]] == ["run-3"]
    assert verify_journal(journal) == []
