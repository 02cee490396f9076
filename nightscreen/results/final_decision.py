"""The decision in force on a customer, once a person settled the case: by whom and when.

A review, an override or the answer to a contest settles it, each as a review that stands: it has
not ended, and it rests on the evidence that there is now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nightscreen.journal.customers import Customers
from nightscreen.journal.reviews import Reviews
from nightscreen.results.tracked_state import evidence_digest
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.policy import Decision

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nightscreen.journal import Journal
    from nightscreen.schemas.contests import Review

FINAL_COLUMNS = ("final_decision", "decided_by", "decided_at")


def standing_reviews(
    journal: Journal, batch: str, among: Sequence[bytes] = ()
) -> dict[bytes, Review]:
    """Return the reviews that settle customers of a batch, of some of them where any are named."""
    reviews = Reviews.of(journal).active(batch, journal.clock(), among)
    known = Customers.of(journal).known(list(reviews))
    return {
        customer: review
        for customer, review in reviews.items()
        if review.decision != Decision.REVIEW.value
        and customer in known
        and evidence_digest(known[customer].state) == review.evidence
    }


def final_columns(review: Review | None) -> dict[str, str | None]:
    """Return what lists and exports say of a customer; None in each where nobody settled it."""
    if review is None:
        return dict.fromkeys(FINAL_COLUMNS)
    by = review.reviewer + (f", {review.confirmed_by}" if review.confirmed_by else "")
    settled = (review.decision, by, instant_text(review.reviewed_at))
    return dict(zip(FINAL_COLUMNS, settled, strict=True))
