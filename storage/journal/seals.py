"""Sealed columns of the journal's tables: sealed anew under another key, and verified.

What binds each is said where it is sealed; which columns there are, in `customer_seals` and
`grant_seals`. Answers are the business of `rotation` and `verify` themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import select, update

from nightscreen.schemas.errors import JournalDamagedError, JournalKeyError
from nightscreen.storage.journal.engine import writing
from nightscreen.storage.sealing import KEY_ID_BYTES, key_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sqlalchemy import Column, Connection, Row

    from nightscreen.storage.journal import Journal

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


def reseal(journal: Journal, columns: Iterable[SealedColumn]) -> int:
    """Seal columns under the journal's present key, in blocks; return how many values."""
    current = key_id(journal.sealer.key)
    done = 0
    for sealed in columns:
        last = sealed.first
        while True:
            with writing(journal.engine) as connection:
                rows = sealed.after(connection, last)
                for row in rows:
                    if bytes(row[1][:KEY_ID_BYTES]) == current:
                        continue
                    context = sealed.binding(row)
                    plain = journal.sealer.open(bytes(row[1]), context)
                    change = update(sealed.column.table).where(sealed.key == row[0])
                    fresh = {sealed.column.name: journal.sealer.seal(plain, context)}
                    connection.execute(change.values(fresh))
                    done += 1
            if not rows:
                break
            last = rows[-1][0]
    return done


def count_broken(journal: Journal, connection: Connection, columns: Iterable[SealedColumn]) -> int:
    """Return how many sealed values do not open under the data key."""
    broken = 0
    for sealed in columns:
        last = sealed.first
        while rows := sealed.after(connection, last):
            for row in rows:
                try:
                    journal.sealer.open(bytes(row[1]), sealed.binding(row))
                except (JournalDamagedError, JournalKeyError):
                    broken += 1
            last = rows[-1][0]
    return broken
