"""Every sealed column of the journal but answers, and whether it opens.

What binds each is said where it is sealed. Answers are the business of `verify` itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import select

from nightscreen.journal.approvals import approvals, note_context
from nightscreen.journal.customer_tables import customer_history, customer_states
from nightscreen.journal.customers import state_context
from nightscreen.journal.grant_tables import (
    cash_flows,
    consent_grants,
    consent_states,
    flow_context,
    grant_context,
    link_context,
    token_context,
    transaction_context,
    transaction_records,
)
from nightscreen.journal.records import record_context, records
from nightscreen.schemas.errors import JournalDamagedError, JournalKeyError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Column, Connection, Row

    from nightscreen.journal import Journal

_BLOCK = 500


class SealedColumn(NamedTuple):
    """A sealed column.

    Attributes:
        key: the column by which its table is walked.
        column: what is sealed; null where there is nothing.
        bound_by: columns whose values bind it.
        context: what it is bound to, from those values.
        first: a key before all others.
    """

    key: Column[Any]
    column: Column[bytes]
    bound_by: tuple[Column[Any], ...]
    context: Callable[..., bytes]
    first: int | str | bytes

    def after(self, connection: Connection, last: int | str | bytes) -> Sequence[Row[Any]]:
        """Return the next rows: key, what is sealed, and what binds it."""
        query = (
            select(self.key, self.column, *(each.label(None) for each in self.bound_by))
            .where(self.key > last, self.column.is_not(None))
            .order_by(self.key)
            .limit(_BLOCK)
        )
        return connection.execute(query).all()

    def binding(self, row: Row[Any]) -> bytes:
        """Return what a row's sealed value is bound to."""
        parts = (bytes(each) if isinstance(each, memoryview) else each for each in row[2:])
        return self.context(*parts)


_states, _history = customer_states.c, customer_history.c
_approvals, _records = approvals.c, records.c
_grants, _links = consent_grants.c, consent_states.c
_moves, _flows = transaction_records.c, cash_flows.c
_KEPT_OF_CUSTOMERS = (
    SealedColumn(_states.customer, _states.state, (_states.customer,), state_context, b""),
    SealedColumn(_history.history_id, _history.state, (_history.customer,), state_context, 0),
    SealedColumn(_approvals.approval_id, _approvals.note, (_approvals.run_id,), note_context, 0),
    SealedColumn(
        _records.record_id, _records.sealed, (_records.kind, _records.key), record_context, 0
    ),
)
_BROUGHT_BY_CONSENT = (
    SealedColumn(_grants.grant_id, _grants.sealed, (_grants.grant_id,), grant_context, ""),
    SealedColumn(_grants.grant_id, _grants.tokens, (_grants.grant_id,), token_context, ""),
    SealedColumn(_links.state_hash, _links.sealed, (_links.state_hash,), link_context, b""),
    SealedColumn(
        _moves.record_id,
        _moves.sealed,
        (_moves.customer, _moves.record_key),
        transaction_context,
        0,
    ),
    SealedColumn(_flows.flow_id, _flows.sealed, (_flows.customer, _flows.run_id), flow_context, 0),
)
_SEALED = {
    "states, reviews, requests, offers, records or notes": _KEPT_OF_CUSTOMERS,
    "grants, transactions or cash flows": _BROUGHT_BY_CONSENT,
}
"""The columns under what verification calls them."""


def broken_seals(journal: Journal, connection: Connection) -> list[str]:
    """Return a sentence where what is sealed does not open under the data key."""
    counted = {
        kinds: sum(_broken(journal, connection, sealed) for sealed in columns)
        for kinds, columns in _SEALED.items()
    }
    return [
        f"{number} {kinds} do not open under the data key"
        for kinds, number in counted.items()
        if number
    ]


def _broken(journal: Journal, connection: Connection, sealed: SealedColumn) -> int:
    broken = 0
    last = sealed.first
    while rows := sealed.after(connection, last):
        for row in rows:
            try:
                journal.sealer.open(bytes(row[1]), sealed.binding(row))
            except (JournalDamagedError, JournalKeyError):
                broken += 1
        last = rows[-1][0]
    return broken
