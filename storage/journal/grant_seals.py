"""What is sealed of customers who consented: what binds it, how it is sealed anew and verified.

Rotation of the data key and verification of a journal call this beside their own work on answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nightscreen.storage.journal.grant_tables import (
    cash_flows,
    consent_grants,
    consent_states,
    transaction_records,
)
from nightscreen.storage.journal.seals import SealedColumn, count_broken, reseal

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from nightscreen.storage.journal import Journal


def grant_context(grant_id: str) -> bytes:
    """Return what binds a sealed grant to its row."""
    return f"consent grant\x1f{grant_id}".encode()


def token_context(grant_id: str) -> bytes:
    """Return what binds sealed tokens to their grant."""
    return f"consent tokens\x1f{grant_id}".encode()


def state_context(state_hash: bytes) -> bytes:
    """Return what binds a sealed consent link to its row."""
    return b"consent state\x1f" + state_hash


def transaction_context(customer: bytes, record_key: bytes) -> bytes:
    """Return what binds a sealed transaction to its customer and its key."""
    return b"transaction\x1f" + customer + record_key


def flow_context(customer: bytes, run_id: str) -> bytes:
    """Return what binds sealed figures to their customer and pull."""
    return b"cash flow\x1f" + customer + run_id.encode()


_grants, _states, _records = consent_grants.c, consent_states.c, transaction_records.c
_flows = cash_flows.c
_SEALED = (
    SealedColumn(_grants.grant_id, _grants.sealed, (_grants.grant_id,), grant_context, ""),
    SealedColumn(_grants.grant_id, _grants.tokens, (_grants.grant_id,), token_context, ""),
    SealedColumn(_states.state_hash, _states.sealed, (_states.state_hash,), state_context, b""),
    SealedColumn(
        _records.record_id,
        _records.sealed,
        (_records.customer, _records.record_key),
        transaction_context,
        0,
    ),
    SealedColumn(_flows.flow_id, _flows.sealed, (_flows.customer, _flows.run_id), flow_context, 0),
)


def reseal_grants(journal: Journal) -> int:
    """Seal all of it under the present key; return how many values."""
    return reseal(journal, _SEALED)


def broken_grant_seals(journal: Journal, connection: Connection) -> list[str]:
    """Return a sentence where what is sealed does not open; empty where all does."""
    broken = count_broken(journal, connection, _SEALED)
    return (
        [f"{broken} grants, transactions or cash flows do not open under the data key"]
        if broken
        else []
    )
