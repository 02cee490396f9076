"""What is sealed in the tables about customers: sealed anew under another key, and verified.

Rotation of the data key and verification of a journal call this beside their own work on answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import select, update

from schemas.errors import JournalDamagedError, JournalKeyError
from storage.journal.bvn_consents import bvn_requests, request_context
from storage.journal.customer_tables import customer_history, customer_states, ensure, reviews
from storage.journal.customers import state_context
from storage.journal.engine import writing
from storage.journal.loan_offers import loan_history, loan_offers, news_context, offer_context
from storage.journal.reviews import review_context
from storage.sealing import KEY_ID_BYTES, key_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Column, Connection, Row, Table

    from storage.journal import Journal

_BLOCK = 500


class _Sealed(NamedTuple):
    """A sealed column: its table, by which key rows are ordered, whose it is, and what binds it."""

    table: Table
    key: Column[int] | Column[bytes]
    column: Column[bytes]
    context: Callable[[bytes], bytes]
    first: int | bytes


_SEALED = (
    _Sealed(
        customer_states,
        customer_states.c.customer,
        customer_states.c.state,
        state_context,
        b"",
    ),
    _Sealed(
        customer_history,
        customer_history.c.history_id,
        customer_history.c.state,
        state_context,
        0,
    ),
    _Sealed(reviews, reviews.c.review_id, reviews.c.sealed, review_context, 0),
    _Sealed(bvn_requests, bvn_requests.c.request_id, bvn_requests.c.sealed, request_context, b""),
    _Sealed(loan_offers, loan_offers.c.offer_id, loan_offers.c.sealed, offer_context, b""),
    _Sealed(loan_history, loan_history.c.history_id, loan_history.c.sealed, news_context, 0),
)


def _next(
    connection: Connection, sealed: _Sealed, last: int | bytes
) -> Sequence[Row[tuple[int | bytes, bytes, bytes]]]:
    query = (
        select(sealed.key, sealed.table.c.customer, sealed.column)
        .where(sealed.key > last)
        .order_by(sealed.key)
        .limit(_BLOCK)
    )
    return connection.execute(query).all()


def reseal_customers(journal: Journal) -> int:
    """Seal all of them under the journal's present key, in blocks; return how many there were."""
    ensure(journal.engine)
    current = key_id(journal.sealer.key)
    done = 0
    for sealed in _SEALED:
        last = sealed.first
        while True:
            with writing(journal.engine) as connection:
                rows = _next(connection, sealed, last)
                for key, customer, body in rows:
                    if bytes(body[:KEY_ID_BYTES]) == current:
                        continue
                    context = sealed.context(bytes(customer))
                    fresh = journal.sealer.seal(journal.sealer.open(bytes(body), context), context)
                    connection.execute(
                        update(sealed.table)
                        .where(sealed.key == key)
                        .values({sealed.column.name: fresh})
                    )
                    done += 1
            if not rows:
                break
            last = rows[-1][0]
    return done


def broken_customer_seals(journal: Journal, connection: Connection) -> list[str]:
    """Return a sentence where any of them does not open; empty where all do."""
    broken = 0
    for sealed in _SEALED:
        last = sealed.first
        while rows := _next(connection, sealed, last):
            for _, customer, body in rows:
                try:
                    journal.sealer.open(bytes(body), sealed.context(bytes(customer)))
                except (JournalDamagedError, JournalKeyError):
                    broken += 1
            last = rows[-1][0]
    return (
        [f"{broken} states, reviews, requests or offers do not open under the data key"]
        if broken
        else []
    )
