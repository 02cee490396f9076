"""What is sealed of customers and decisions: states, reviews, requests, offers, records, notes.

Rotation of the data key and verification of a journal call this beside their own work on answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nightscreen.storage.journal.approvals import approvals, note_context
from nightscreen.storage.journal.customer_tables import (
    customer_history,
    customer_states,
    ensure,
)
from nightscreen.storage.journal.customers import state_context
from nightscreen.storage.journal.records import record_context, records
from nightscreen.storage.journal.seals import SealedColumn, count_broken, reseal

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from nightscreen.storage.journal import Journal

_states, _history = customer_states.c, customer_history.c
_approvals, _records = approvals.c, records.c
_SEALED = (
    SealedColumn(_states.customer, _states.state, (_states.customer,), state_context, b""),
    SealedColumn(_history.history_id, _history.state, (_history.customer,), state_context, 0),
    SealedColumn(_approvals.approval_id, _approvals.note, (_approvals.run_id,), note_context, 0),
    SealedColumn(
        _records.record_id, _records.sealed, (_records.kind, _records.key), record_context, 0
    ),
)


def reseal_customers(journal: Journal) -> int:
    """Seal all of them under the journal's present key, in blocks; return how many there were."""
    ensure(journal.engine)
    return reseal(journal, _SEALED)


def broken_customer_seals(journal: Journal, connection: Connection) -> list[str]:
    """Return a sentence where any of them does not open; empty where all do."""
    broken = count_broken(journal, connection, _SEALED)
    kinds = "states, reviews, requests, offers, records or notes"
    return [f"{broken} {kinds} do not open under the data key"] if broken else []
