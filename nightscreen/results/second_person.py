"""The second person: a decline turned into approve above a threshold waits for one.

Every way to another decision asks `needs_second`: a review, an answer to a contest, a list that
comes back by command or inbox, and rows of a quarantine that somebody typed. What waits is a record
of the journal and no review yet; `settle_case.py` lets it stand or ends it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nightscreen.journal.customers import Customers
from nightscreen.results.one_row import find_row
from nightscreen.schemas.decisions import LISTED_PART
from nightscreen.schemas.policy import Decision

if TYPE_CHECKING:
    from collections.abc import Iterator
    from decimal import Decimal

    from nightscreen.journal import Journal

_LOOKED_AT = 60
"""Runs of a batch, from the newest on, in which a customer's exposure is looked for."""


def needs_second(
    journal: Journal,
    above: Decimal | None,
    *,
    batch: str,
    customer_id: str,
    decision: str,
    run_id: str = "",
) -> bool:
    """Tell whether a decision turns a decline into approve above what one person may.

    The policy's latest decision counts, and that of the run whose list was looked at; so does each
    of their exposures. An exposure that is not known counts as above.

    Args:
        journal: the journal.
        above: naira, of the setting OVERRIDE_ABOVE; None where one person is enough.
        batch: the batch name.
        customer_id: as the lender's file has it.
        decision: the new one.
        run_id: whose list or row was looked at; empty where none was.
    """
    if above is None or decision != Decision.APPROVE.value:
        return False
    customer = journal.pseudonyms.customer(batch, customer_id)
    known = Customers.of(journal).known([customer]).get(customer)
    listed = None if known is None else known.state.get(LISTED_PART)
    decisions = {"" if listed is None else listed.values["decision"]}
    exposures = []
    for row in _rows(journal, batch, customer_id, run_id):
        decisions.add(row["decision"])
        exposures.append(row.get("exposure"))
    if Decision.DECLINE.value not in decisions:
        return False
    return not exposures or any(each is None or each > above for each in exposures)


def _rows(journal: Journal, batch: str, customer_id: str, run_id: str) -> Iterator[dict[str, Any]]:
    """Yield a customer's row in a run, and the newest one of the batch."""
    looked_at = journal.runs.find(run_id) if run_id else None
    row = None if looked_at is None else find_row(looked_at, customer_id)
    if row is not None:
        yield row
    for run in journal.runs.newest(batch=batch, limit=_LOOKED_AT):
        row = find_row(run, customer_id)
        if row is not None:
            yield row
            return
