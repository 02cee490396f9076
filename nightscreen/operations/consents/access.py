"""What is held of a customer who consented, as the customer may see it; tokens are never shown.

Subject access (`privacy/`) adds until when each record is kept.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nightscreen.operations.consents.admin import shown_grant
from nightscreen.operations.transactions.store import PullStore
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.pulls import PulledKind

if TYPE_CHECKING:
    from nightscreen.journal import Journal
    from nightscreen.schemas.consented import CashFigures, ConsentLink, Grant
    from nightscreen.schemas.pulls import Pulled

_UNTIL_ERASED = "while the consent is valid, then as long as answers of the service"


def own_grant(grant: Grant) -> dict[str, Any]:
    """Return one of a customer's consents, with how it was given."""
    return {"grant_id": grant.grant_id, **shown_grant(grant), "evidence": grant.evidence}


def own_link(link: ConsentLink) -> dict[str, Any]:
    """Return a link to consent that a customer was sent."""
    return {
        "made_at": instant_text(link.at),
        "scopes": list(link.scopes),
        "expires_at": instant_text(link.expires_at),
        "used_at": instant_text(link.used_at),
    }


def own_figures(found: CashFigures) -> dict[str, Any]:
    """Return a customer's cash flow."""
    return {
        "run_id": found.run_id,
        "checked_at": instant_text(found.at),
        "figures": found.figures,
    }


def own_pull(pull: Pulled) -> dict[str, Any]:
    """Return how one pull of a customer went."""
    return {
        "run_id": pull.run_id,
        "pulled": pull.pulled.folder,
        "outcome": pull.state.value,
        "answered_at": instant_text(pull.answered_at),
    }


def own_records(journal: Journal, customer_id: str) -> dict[str, list[dict[str, Any]]]:
    """Return every version of every record that was pulled of a customer, as JSON has them."""
    customer = journal.pseudonyms.customers_anywhere([customer_id])
    records: dict[str, list[dict[str, Any]]] = {kind.folder: [] for kind in PulledKind}
    for block in PullStore(journal).of_customer(customer):
        for version in block:
            records[version.kind.folder].append(
                {
                    "first_seen_at": instant_text(version.first_seen_at),
                    "ended_at": instant_text(version.ended_at),
                    "ended_as": version.ended_as,
                    "record": json.loads(version.raw, parse_float=str),
                    "kept_until": _UNTIL_ERASED,
                }
            )
    return records
