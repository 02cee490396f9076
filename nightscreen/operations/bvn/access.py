"""Stored data about a customer who was asked for BVN consent, as the customer may see it.

It is for the customer, so their own data are in clear; a record that contradicts them may be
somebody else's and is withheld. The other parts of what is held are `subject_access`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nightscreen.journal.records import Records
from nightscreen.operations.bvn.table import compare
from nightscreen.schemas.answers import BvnDetails
from nightscreen.schemas.bvn import BvnRequest, HeldCustomer
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.money import naira_text
from nightscreen.values.names import CONTRADICTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nightscreen.journal import Journal

PERSONAL = tuple(
    name for name in BvnDetails.model_fields if name not in {"reference", "bvn", "watchlisted"}
)
"""Fields of BVN details about the person the BVN belongs to."""


def requests_of(journal: Journal, customer_id: str) -> list[BvnRequest]:
    """Return every request for a customer's BVN consent, oldest first."""
    customer = journal.pseudonyms.customers_anywhere([customer_id])
    return Records.of(journal, BvnRequest).of_customers([customer])


def shown_request(request: BvnRequest) -> dict[str, Any]:
    """Return a request as JSON has it."""
    return {
        "batch": request.batch,
        "run_id": request.run_id,
        "state": request.state.value,
        "in_doubt": None if request.doubt is None else request.doubt.value,
        "bvn": request.held.bvn,
        "contact": request.held.contact,
        "masked_contact": request.held.masked_contact,
        "requested_at": instant_text(request.at),
        "settled_at": instant_text(request.settled_at),
        "attempts": request.attempts,
        "consent_reference": request.consent_reference,
        "cost": naira_text(request.cost_micro),
    }


def is_theirs(answer: BvnDetails, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a BVN answer agrees with the customer by any of their rows."""
    compared = (compare(_held(row), answer) for row in rows)
    return any(
        each.name_match not in {None, *CONTRADICTS} and each.dob_match is not False
        for each in compared
    )


def _held(row: Mapping[str, Any]) -> HeldCustomer:
    names = ("phone", "first_name", "middle_name", "last_name", "full_name", "date_of_birth")
    return HeldCustomer("", "", "", **{name: row.get(name) for name in names})
