"""Stored data about a customer who consented: grants, pulls, records of the service, figures.

It is for the customer, so their own data are in clear; tokens are not the customer's data and are
never shown. The other parts of what is held are `subject_access`'s.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nightscreen.journal.cash_flows import CashFlows
from nightscreen.journal.vault import Vault
from nightscreen.operations.transactions.transaction_files import Transactions
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.pulls import PulledKind

if TYPE_CHECKING:
    from nightscreen.journal import Journal
    from nightscreen.journal.vault import Grant
    from nightscreen.operations.transactions.transaction_files import Version

_UNTIL_ERASED = "while the consent is valid, then as long as answers of the service"


def consented_data(journal: Journal, customer_id: str) -> dict[str, list[dict[str, Any]]]:
    """Return consents, pulls and records of a customer as JSON has them."""
    vault, store = Vault.of(journal), Transactions.of(journal)
    customer = vault.customer(customer_id)
    records: dict[str, list[dict[str, Any]]] = {kind.folder: [] for kind in PulledKind}
    for block in store.of_customer(customer):
        for record in block:
            records[record.kind.folder].append(_record(record))
    return {
        "consents": [_consent(grant) for grant in vault.history(customer_id)],
        "pulls": [
            {
                "run_id": pull.run_id,
                "pulled": pull.kind.folder,
                "outcome": pull.outcome.value,
                "answered_at": instant_text(pull.answered_at),
            }
            for pull in store.pulls_of(customer)
        ],
        **records,
        "cash_flow": [
            {
                "run_id": figures.run_id,
                "checked_at": instant_text(figures.checked_at),
                "kept_until": _UNTIL_ERASED,
                "figures": figures.document(),
            }
            for figures in CashFlows(journal).of_customer(customer)
        ],
    }


def _consent(grant: Grant) -> dict[str, Any]:
    return {
        "grant_id": grant.grant_id,
        "state": grant.state.value,
        "scopes": list(grant.scopes),
        "asked_scopes": list(grant.asked_scopes),
        "granted_at": instant_text(grant.granted_at),
        "ended_at": instant_text(grant.ended_at),
        "reason": grant.reason,
        "evidence": grant.evidence,
    }


def _record(version: Version) -> dict[str, Any]:
    return {
        "first_seen_at": instant_text(version.first_seen_at),
        "ended_at": instant_text(version.ended_at),
        "ended_as": version.ended_as,
        "record": json.loads(version.raw, parse_float=str),
        "kept_until": _UNTIL_ERASED,
    }
