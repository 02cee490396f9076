"""What is sealed of customers who consented: what binds it, how it is sealed anew and verified.

Rotation of the data key and verification of a journal call this beside their own work on answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import select, update

from schemas.errors import JournalDamagedError, JournalKeyError
from storage.journal.engine import writing
from storage.journal.grant_tables import consent_grants, consent_states, transaction_records
from storage.sealing import KEY_ID_BYTES, key_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Column, Connection, Row

    from storage.journal import Journal

_BLOCK = 500


def grant_context(grant_id: str) -> bytes:
    """Return what binds a sealed grant to its row."""
    return f"consent grant\x1f{grant_id}".encode()


def token_context(grant_id: str) -> bytes:
    """Return what binds sealed tokens to their grant."""
    return f"consent tokens\x1f{grant_id}".encode()


def state_context(state_hash: bytes) -> bytes:
    """Return what binds a sealed consent link to its row."""
    return b"consent state\x1f" + state_hash


def record_context(customer: bytes, record_key: bytes) -> bytes:
    """Return what binds a sealed transaction to its customer and its key."""
    return b"transaction\x1f" + customer + record_key


class _Sealed(NamedTuple):
    """A sealed column: its key, what else binds it, and from what the binding is made."""

    key: Column[Any]
    column: Column[bytes]
    bound_by: tuple[Column[Any], ...]
    context: Callable[..., bytes]
    first: int | str | bytes


_grants, _states, _records = consent_grants.c, consent_states.c, transaction_records.c
_SEALED = (
    _Sealed(_grants.grant_id, _grants.sealed, (_grants.grant_id,), grant_context, ""),
    _Sealed(_grants.grant_id, _grants.tokens, (_grants.grant_id,), token_context, ""),
    _Sealed(_states.state_hash, _states.sealed, (_states.state_hash,), state_context, b""),
    _Sealed(
        _records.record_id,
        _records.sealed,
        (_records.customer, _records.record_key),
        record_context,
        0,
    ),
)


def _next(connection: Connection, sealed: _Sealed, last: int | str | bytes) -> Sequence[Row[Any]]:
    query = (
        select(sealed.key, sealed.column, *(each.label(None) for each in sealed.bound_by))
        .where(sealed.key > last, sealed.column.is_not(None))
        .order_by(sealed.key)
        .limit(_BLOCK)
    )
    return connection.execute(query).all()


def _bound(sealed: _Sealed, row: Row[Any]) -> bytes:
    parts = (bytes(each) if isinstance(each, memoryview) else each for each in row[2:])
    return sealed.context(*parts)


def reseal_grants(journal: Journal) -> int:
    """Seal grants, tokens, links and transactions under the present key; return how many."""
    current = key_id(journal.sealer.key)
    done = 0
    for sealed in _SEALED:
        last = sealed.first
        while True:
            with writing(journal.engine) as connection:
                rows = _next(connection, sealed, last)
                for row in rows:
                    if bytes(row[1][:KEY_ID_BYTES]) == current:
                        continue
                    context = _bound(sealed, row)
                    plain = journal.sealer.open(bytes(row[1]), context)
                    fresh = {sealed.column.name: journal.sealer.seal(plain, context)}
                    change = update(sealed.column.table).where(sealed.key == row[0])
                    connection.execute(change.values(fresh))
                    done += 1
            if not rows:
                break
            last = rows[-1][0]
    return done


def broken_grant_seals(journal: Journal, connection: Connection) -> list[str]:
    """Return a sentence where what is sealed does not open; empty where all does."""
    broken = 0
    for sealed in _SEALED:
        last = sealed.first
        while rows := _next(connection, sealed, last):
            for row in rows:
                try:
                    journal.sealer.open(bytes(row[1]), _bound(sealed, row))
                except (JournalDamagedError, JournalKeyError):
                    broken += 1
            last = rows[-1][0]
    return [f"{broken} grants or transactions do not open under the data key"] if broken else []
