"""Links that were made: learnt from a call's answer, after a crash too, or asked for once more.

The journal of calls knows how a call ended whose process did not live to write it down. A call
whose answer was lost stays in doubt until somebody asks for another link on purpose. Making links
in the first place is `offering`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nightscreen.client.response_parser import parse_answer
from nightscreen.journal.loan_offers import LoanOffers
from nightscreen.journal.runs import RUNNING
from nightscreen.operations.loans.offer_source import candidates, read_source
from nightscreen.schemas.calls import CallState
from nightscreen.schemas.checks import Operation, SubjectKind
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.loans import LoanStarted
from nightscreen.schemas.offers import LinkState, Offer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nightscreen.journal import Journal
    from nightscreen.schemas.offers import OfferLoans

_START = Operation.LOAN_START
_LOST = frozenset({CallState.IN_DOUBT.value, CallState.INTENT.value, CallState.UNREADABLE.value})


def bring_up_to_date(journal: Journal, *, run_id: str = "") -> int:
    """Learn what came of calls whose process died; return how many there were.

    Args:
        journal: the journal.
        run_id: the run that is resumed, whose calls are not under way.
    """
    store = LoanOffers.of(journal)
    left = [
        offer for offer in store.starting() if offer.run_id == run_id or _is_over(journal, offer)
    ]
    for offer in left:
        after = _learnt(journal, store, offer)
        if after is None:
            store.drop([offer])
        else:
            store.put([after])
    return len(left)


def _is_over(journal: Journal, offer: Offer) -> bool:
    run = journal.runs.find(offer.run_id)
    return run is None or run.state != RUNNING


def _learnt(journal: Journal, store: LoanOffers, offer: Offer) -> Offer | None:
    """Return an offer after the call whose end its process did not live to write down."""
    state = store.call_state(offer, _START.value)
    if state in _LOST:
        return offer.model_copy(update={"state": LinkState.IN_DOUBT})
    stored = journal.answers.latest(_START.value, [offer.offer_id]).get(offer.offer_id)
    if state != CallState.ANSWERED.value or stored is None:
        return None
    return linked(journal, offer, journal.answers.body(_START.value, stored), journal.clock())


def linked(journal: Journal, offer: Offer, body: bytes, now: int) -> Offer:
    """Return an offer with the link that the service made for it."""
    answer = parse_answer(_START, body)
    if not isinstance(answer, LoanStarted) or not answer.reference:
        return offer.model_copy(update={"state": LinkState.IN_DOUBT})
    held = replace(offer.held, reference=answer.reference, url=answer.url)
    loan = journal.pseudonyms.subject(SubjectKind.LOAN.value, answer.reference)
    made = {"state": LinkState.OFFERED, "offered_at": now, "loan": loan, "held": held}
    return offer.model_copy(update=made)


def ask_again(journal: Journal, parameters: OfferLoans, customer_ids: Sequence[str]) -> int:
    """Let the next run make another link for some customers, on purpose; return how many.

    Only where the last start is in doubt, or its loan has ended: an open offer has its link.

    Args:
        journal: the journal.
        parameters: with folder and product, as `offering.remembered` gives them.
        customer_ids: as the lender's file has them.

    Raises:
        InputError: a customer is not in the run, has no such offer, or has an open one; named by
            its position among those given, since an id may be personal.
    """
    source = read_source(parameters)
    journal.calls.recover()
    bring_up_to_date(journal)
    found, _ = candidates(journal, source, parameters.decisions)
    known = {
        offer.customer_id: offer.customer
        for offer in found
        if not (offer.superseded or offer.contested or offer.unrequested)
    }
    store = LoanOffers.of(journal)
    offers = store.newest(list(known.values()), parameters.product)
    again: list[Offer] = []
    for number, customer_id in enumerate(dict.fromkeys(customer_ids), start=1):
        offer = offers.get(known.get(customer_id, b""))
        _refuse_again(number, known=customer_id in known, offer=offer)
        if offer is not None:
            again.append(offer.model_copy(update={"renewed": True}))
    store.put(again)
    return len(again)


def _refuse_again(number: int, *, known: bool, offer: Offer | None) -> None:
    who = f"--again: customer number {number} of those given"
    if not known:
        raise InputError(
            f"{who} has no row with a chosen decision in this run; write the id as the file has it"
        )
    if offer is None:
        raise InputError(f"{who} was never offered this product; leave --again out")
    if offer.state is LinkState.STARTING:
        raise InputError(f"{who} is being offered it by a run under way; wait for that run")
    if offer.state is LinkState.OFFERED and offer.closed_at is None:
        raise InputError(
            f"{who} has an open offer, and so a link: offer without --again, and the link is in "
            "offers.parquet"
        )
