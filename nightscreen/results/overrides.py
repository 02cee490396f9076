"""Overrides: reviews in force that decided otherwise than the policy, by reason and reviewer."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from nightscreen.journal.customers import Customers
from nightscreen.journal.reviews import Reviews
from nightscreen.results.reviews import active_reviews
from nightscreen.schemas.decisions import DECISION_PART

if TYPE_CHECKING:
    from nightscreen.journal import Journal


def overrides_of(journal: Journal, batch: str, at: int) -> list[dict[str, Any]]:
    """Return how many customers each reviewer decided otherwise, by the policy's main reason.

    What the policy left to a person (`review`, `undecided`) stands here too, told by `from`.
    """
    reviews = active_reviews(Reviews.of(journal), batch, at=at)
    differing = {
        customer: review for customer, review in reviews.items() if review.decision != review.listed
    }
    counts: Counter[tuple[str, str, str, str]] = Counter()
    known = Customers.of(journal).known(list(differing))
    for customer, review in differing.items():
        state = known[customer].state if customer in known else {}
        decided = state.get(DECISION_PART)
        reasons = "" if decided is None else decided.values.get("reasons", "")
        reason = reasons.split(", ")[0]
        counts[reason, review.reviewer, review.listed, review.decision] += 1
    return [
        {
            "reason": reason or None,
            "reviewer": reviewer,
            "from": listed,
            "to": decision,
            "customers": number,
        }
        for (reason, reviewer, listed, decision), number in sorted(
            counts.items(), key=lambda each: (-each[1], each[0])
        )
    ]
