"""The files and the report of a run of offers: a list ready for a mail merge, and its account.

`offers.parquet` and `offers.csv` hold names, contacts, references and links; report, calls and
manifest hold none of them. `offering` decides the state of a customer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nightscreen.files.outputs import OFFERS_CSV, OFFERS_FILE
from nightscreen.operations.loans.offering import find_out_rest
from nightscreen.report.api_run import OperationEnds, close_api_run
from nightscreen.results.decision_files import csv_bytes
from nightscreen.runs.run_report import run_end
from nightscreen.schemas.checks import Operation
from nightscreen.schemas.clock import to_instant
from nightscreen.schemas.enriched import WORD
from nightscreen.schemas.offers import LinkState, OfferWord
from nightscreen.schemas.rows import INSTANT
from nightscreen.schemas.stops import StopReason

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from nightscreen.operations.loans.offering import Offering, Row
    from nightscreen.schemas.offers import Offer

OFFERS = pa.schema(
    [
        pa.field("customer_id", pa.string()),
        pa.field("customer_name", pa.string()),
        pa.field("email", pa.string()),
        pa.field("phone", pa.string()),
        pa.field("product_id", pa.string()),
        pa.field("product_name", pa.string()),
        pa.field("state", WORD),
        pa.field("reference", pa.string()),
        pa.field("url", pa.string()),
        pa.field("offered_at", INSTANT),
        pa.field("number", pa.int32()),
        pa.field("decision", WORD),
        pa.field("decided_by", WORD),
        pa.field("problem", WORD),
        pa.field("batch", WORD),
        pa.field("screening_run_id", WORD),
        pa.field("offer_run_id", WORD),
    ]
)
_LINKED = frozenset({OfferWord.OFFERED, OfferWord.ALREADY_OFFERED})


def close_offering(offering: Offering) -> dict[str, Any]:
    """Write offers, calls, report and manifest; note the run's end, and return the report."""
    run = offering.run
    find_out_rest(offering)
    _write_offers(offering)
    _note_doubt(offering)
    more = {
        "source": {
            "run_id": offering.source.run_id,
            "batch": offering.source.batch,
            "decisions": list(offering.parameters.decisions),
            "unsolicited": offering.parameters.unsolicited,
        },
        "product": _product(offering),
        "prefill": list(offering.parameters.prefill),
        "offers": {"chosen": len(offering.rows), **offering.counts()},
        "changes": {"links_made": offering.made},
    }
    rows = {"read": offering.rows_read, "screened": offering.rows_read, "quarantined": 0}
    return close_api_run(run_end(run), rows=rows, operations=_operations(offering), more=more)


def _note_doubt(offering: Offering) -> None:
    """Say that nobody is asked twice by machine, where a link may or may not have been made."""
    doubtful = offering.counts()[OfferWord.IN_DOUBT.value]
    if doubtful:
        offering.run.stops.notices.append(
            f"{doubtful:,} links are in doubt: the call was sent and its answer lost, so that a "
            "link may exist that nobody here knows; no machine asks again, see state in_doubt in "
            f"{OFFERS_CSV}, then name the customers with --again"
        )
    if offering.product is None and offering.run.stops.reason == StopReason.OUTAGE:
        offering.run.stops.notices.append("the list of products did not come; resume the run later")
    left = offering.counts()[OfferWord.PENDING.value]
    failed = offering.run.stops.ending()[1] == StopReason.FAILURES.value
    if left and not failed and offering.run.stops.reason is None:
        offering.run.stops.notices.append(
            f"{left:,} customers were not reached, since no more links were asked for"
        )


def _product(offering: Offering) -> dict[str, Any]:
    found = offering.product
    wanted = offering.parameters.product
    return {"product_id": wanted, "name": None if found is None else found.name}


def _operations(offering: Offering) -> dict[Operation, OperationEnds]:
    answers: dict[Operation, Mapping[str, int]] = {
        Operation.LOAN_PRODUCTS: {"listed": int(offering.product is not None)},
        Operation.LOAN_START: {"offered": offering.made},
    }
    return {
        operation: OperationEnds(ended, answers[operation])
        for operation, ended in offering.ended.items()
    }


def _write_offers(offering: Offering) -> None:
    """Write the offers twice, for programs and for spreadsheets.

    The phone stays unchanged, for the person who sends the messages: it is `+234` and ten digits.
    """
    folder = offering.run.folder
    offers = pa.Table.from_pylist([_record(offering, row) for row in offering.rows], OFFERS)
    folder.write_parquet(OFFERS_FILE, OFFERS, [offers])
    with folder.file(OFFERS_CSV, offers.num_rows) as partial:
        partial.write_bytes(csv_bytes(offers, headings=True, as_is=["phone"]))


def _record(offering: Offering, row: Row) -> dict[str, Any]:
    """Return a row as the list has it; reference and link only where they are known."""
    candidate, offer = row.candidate, row.offer
    linked = row.word in _LINKED and offer is not None and offer.state is LinkState.OFFERED
    product = offering.product
    return {
        "customer_id": candidate.customer_id,
        "customer_name": candidate.customer_name,
        "email": candidate.email,
        "phone": candidate.phone,
        "product_id": offering.parameters.product,
        "product_name": _product_name(offer) if product is None else product.name,
        "state": row.word.value,
        "reference": offer.held.reference if linked and offer is not None else None,
        "url": offer.held.url if linked and offer is not None else None,
        "offered_at": _instant(offer) if linked else None,
        "number": None if offer is None else offer.number,
        "decision": candidate.decision,
        "decided_by": candidate.decided_by,
        "problem": row.problem,
        "batch": offering.source.batch,
        "screening_run_id": offering.source.run_id,
        "offer_run_id": None if offer is None else offer.run_id,
    }


def _product_name(offer: Offer | None) -> str | None:
    return None if offer is None else offer.held.product_name


def _instant(offer: Offer | None) -> datetime | None:
    return None if offer is None or offer.offered_at is None else to_instant(offer.offered_at)
