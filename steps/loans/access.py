"""What is held of a customer's loans: each link and what came of it, and what loan books said.

Meant for the customer, so that their own data stand in clear. The other parts of what is held are
`subject_access`'s.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from nightscreen.schemas.outcomes import LoanOutcome
from nightscreen.storage.clock import instant_text
from nightscreen.storage.journal.loan_offers import LoanOffers
from nightscreen.storage.journal.records import Records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nightscreen.schemas.offers import LoanNews, Offer
    from nightscreen.storage.journal import Journal

_UNTIL_ENDED = "while the loan is followed, then as long as decisions"


def outcome_data(journal: Journal, customer_id: str) -> list[dict[str, Any]]:
    """Return what a lender's loan books said of a customer's loans."""
    name = journal.pseudonyms.customers_anywhere([customer_id])
    return [
        {
            "loan_id": each.loan_id,
            "disbursed_at": instant_text(each.disbursed_at),
            **each.last.model_dump(mode="json"),
            "past_due": [times.model_dump(mode="json") for times in each.arrears],
            "decision": None if each.stood is None else each.stood.decision,
        }
        for each in Records.of(journal, LoanOutcome).of_customers([name])
    ]


def offered_data(journal: Journal, customer_id: str) -> list[dict[str, Any]]:
    """Return offers to a customer, with all that was ever seen of their loans, as JSON has them."""
    store = LoanOffers.of(journal)
    customer = journal.pseudonyms.customers_anywhere([customer_id])
    offers = store.of_customers([customer])
    history = store.history([each.offer_id for each in offers])
    return [_offer(each, history.get(each.offer_id, [])) for each in offers]


def _offer(offer: Offer, history: Sequence[LoanNews]) -> dict[str, Any]:
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
        "history": [{"seen_at": instant_text(each.at), **_seen(each)} for each in history],
        "kept_until": _UNTIL_ENDED,
    }


def _seen(news: LoanNews) -> dict[str, Any]:
    return {name: value for name, value in asdict(news.now).items() if value is not None}
