"""Stored data about a customer's loans: each link and its result, and the lender's loan books.

It is for the customer, so their own data are in clear. The other parts of what is held are
`subject_access`'s.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from nightscreen.journal.loan_offers import loan_history
from nightscreen.schemas.clock import instant_text

if TYPE_CHECKING:
    from nightscreen.journal import Journal
    from nightscreen.schemas.offers import LoanNews, Offer
    from nightscreen.schemas.outcomes import LoanOutcome

_UNTIL_ENDED = "while the loan is followed, then as long as decisions"


def shown_outcome(outcome: LoanOutcome) -> dict[str, Any]:
    """Return the data of a lender's loan books about a customer's loan, as JSON."""
    return {
        "loan_id": outcome.loan_id,
        "disbursed_at": instant_text(outcome.disbursed_at),
        **outcome.last.model_dump(mode="json"),
        "past_due": [times.model_dump(mode="json") for times in outcome.arrears],
        "decision": None if outcome.stood is None else outcome.stood.decision,
    }


def shown_offer(journal: Journal, offer: Offer) -> dict[str, Any]:
    """Return an offer, with all that was ever seen of its loan, as JSON has it."""
    history = loan_history(journal, [offer.subject]).get(offer.subject, [])
    held = offer.held
    return {
        "batch": offer.batch,
        "product_id": offer.product_id,
        "product_name": held.product_name,
        "number": offer.number,
        "state": offer.state.value,
        "decision": offer.decision,
        "screening_run_id": offer.source_run_id,
        "offer_run_id": offer.run_id,
        "told_email": held.email,
        "told_phone": held.phone,
        "reference": held.reference,
        "url": held.url,
        "offered_at": instant_text(offer.offered_at),
        "status": offer.status,
        "last_answered_at": instant_text(offer.followed_at),
        "closed_at": instant_text(offer.closed_at),
        "history": [{"seen_at": instant_text(view.at), **_seen(view)} for view in history],
        "kept_until": _UNTIL_ENDED,
    }


def _seen(news: LoanNews) -> dict[str, Any]:
    return {name: value for name, value in asdict(news.now).items() if value is not None}
