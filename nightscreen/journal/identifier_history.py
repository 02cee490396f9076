"""Sightings: which customer was seen with which BVN, account, phone, email and photograph.

Keyed pseudonyms on both sides, never an identifier; a customer has one pseudonym for all batch
names, so that the same `customer_id` of a lender counts once. A sighting of an account tells the
BVN it stood under. What sharing means is counted in `planning/shared_identifiers.py`; how a
person's sightings go is in `erasure`.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sqlalchemy import select, text

from nightscreen.journal.engine import reading, writing
from nightscreen.journal.schema import customer_commits, sightings
from nightscreen.schemas.checks import IdentityKind
from nightscreen.schemas.clock import DAY_MICROS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection, CursorResult, Engine

    from nightscreen.journal.storage import Storage

BLOCK = 4000
REWRITTEN_AFTER = 7 * DAY_MICROS
"""A sighting is written again a week after it was last written, not every night."""
_READ_ROWS = 20_000
_WRITE_BYTES = 20_000 * 48
NO_BVN = bytes(16)
_DENSE = 3  # sightings per identifier up to which reading whole ranges is quicker
_NEVER = 2**63 - 1
_BETWEEN = "identifier BETWEEN :low AND :high"


class IdentifierUse(NamedTuple):
    """One sighting that is kept of a customer; instants in microseconds."""

    kind: str
    identifier: bytes
    batch: str
    first_at: int
    last_at: int


class IdentifierUser(NamedTuple):
    """Who was seen with an identifier, in which batch name."""

    kind: str
    identifier: bytes
    customer: bytes
    batch: str


class Other(NamedTuple):
    """A sighting that is not just what the batch at hand wrote lately.

    Attributes:
        key: identifier and customer, joined.
        elsewhere: it is of another batch name.
        bvn: of an account, the BVN it stood under.
    """

    key: bytes
    elsewhere: bool
    bvn: bytes | None

    @classmethod
    def of(cls, identifier: bytes, customer: bytes, elsewhere: object, bvn: bytes | None) -> Other:
        """Return one of a row as the database has it."""
        known = None if bvn is None else bytes(bvn)
        return cls(bytes(identifier) + bytes(customer), bool(elsewhere), known)


class SightingRows(NamedTuple):
    """What was seen with some identifiers.

    Attributes:
        lately: of the batch at hand and written in the last week: identifier, customer and BVN,
            zeros where there is none, 48 bytes a row.
        others: all else.
    """

    lately: NDArray[np.uint8]
    others: list[Other]


@dataclass(frozen=True, slots=True)
class Sightings:
    """Reads and writes sightings."""

    _engine: Engine = field(repr=False)

    @classmethod
    def of(cls, journal: Storage) -> Sightings:
        """Return the sightings of an open journal."""
        return cls(journal.engine)

    def horizon(self, run_id: str) -> int | None:
        """Return the instant before which sightings are earlier than a run; None where all are.

        A run that is resumed counts what it counted when its states were first written.
        """
        kept = customer_commits.c
        query = select(kept.first_at).where(kept.run_id == run_id)
        with reading(self._engine) as connection:
            return connection.execute(query).scalar()

    @contextmanager
    def reading_of(self, kind: str, *, before: int | None = None) -> Iterator[SightingReader]:
        """Read sightings of one kind, only those first seen before an instant where one is given.

        To be asked for `BLOCK` distinct identifiers at a time, in ascending order. Where the
        journal knows few more than are asked about, whole ranges are read, else each is looked for.
        """
        with reading(self._engine) as connection:
            yield SightingReader(connection, kind, before)

    def keep(self, kind: str, batch: str, seen: bytes, *, at: int) -> None:
        """Write sightings down, or that they were seen again; the same twice is once.

        One that is there and was written in the last week is left alone.

        Args:
            kind: of the identifiers.
            batch: the batch name they were seen in.
            seen: identifier, customer and BVN of each, joined, zeros where there is none; in
                ascending order, which keeps neighbours on the same pages. A customer has an
                identifier once.
            at: the instant they count from.
        """
        given = {"kind": kind, "batch": batch, "now": at, "since": at - REWRITTEN_AFTER}
        for start in range(0, len(seen), _WRITE_BYTES):
            block = {"seen": seen[start : start + _WRITE_BYTES], "nobody": NO_BVN}
            with writing(self._engine) as connection:
                connection.execute(_KEEP, {**given, **block})

    def all_seen(self) -> Iterator[tuple[Sequence[Any], ...]]:
        """Yield the columns kind, identifier and customer of all that is kept, some at a time."""
        kept = sightings.c
        query = select(kept.kind, kept.identifier, kept.customer).execution_options(
            yield_per=_READ_ROWS
        )
        with reading(self._engine) as connection:
            for rows in connection.execute(query).partitions():
                yield tuple(zip(*rows, strict=True))

    def of_customers(
        self, customers: Collection[bytes], batches: Collection[str]
    ) -> list[IdentifierUse]:
        """Return what is kept of some customers in some batch names, oldest first."""
        kept = sightings.c
        query = (
            select(kept.kind, kept.identifier, kept.batch, kept.first_at, kept.last_at)
            .where(kept.customer.in_(customers), kept.batch.in_(batches))
            .order_by(kept.first_at, kept.kind, kept.identifier)
        )
        with reading(self._engine) as connection:
            rows = connection.execute(query).all()
        return [IdentifierUse(row[0], bytes(row[1]), *row[2:]) for row in rows]

    def with_identifiers(self, identifiers: Sequence[bytes]) -> list[IdentifierUser]:
        """Return every customer who was seen with one of some identifiers."""
        kept = sightings.c
        kinds = [kind.value for kind in IdentityKind]
        found: list[IdentifierUser] = []
        with reading(self._engine) as connection:
            for start in range(0, len(identifiers), BLOCK):
                block = identifiers[start : start + BLOCK]
                query = select(kept.kind, kept.identifier, kept.customer, kept.batch).where(
                    kept.kind.in_(kinds), kept.identifier.in_(block)
                )
                found += (
                    IdentifierUser(kind, bytes(identifier), bytes(customer), batch)
                    for kind, identifier, customer, batch in connection.execute(query)
                )
        return found


_KEEP = text(
    """
    WITH RECURSIVE place(first) AS (
        SELECT 1 UNION ALL SELECT first + 48 FROM place WHERE first + 48 < length(:seen)
    )
    INSERT INTO sightings (kind, identifier, customer, batch, bvn, first_at, last_at)
    SELECT
        :kind, substr(:seen, first, 16), substr(:seen, first + 16, 16), :batch,
        nullif(substr(:seen, first + 32, 16), :nobody), :now, :now
    FROM place WHERE true
    ON CONFLICT (kind, identifier, customer, batch)
    DO UPDATE SET last_at = excluded.last_at, bvn = excluded.bvn
    WHERE sightings.last_at <= :since
        OR coalesce(sightings.bvn, :nobody) <> coalesce(excluded.bvn, :nobody)
    """
)
"""Given as one value: bound row by row, they take six times as long."""


class SightingReader:
    """Reads sightings of one kind past SQLAlchemy's rows, which cost more than the reading."""

    def __init__(self, connection: Connection, kind: str, before: int | None) -> None:
        self._connection = connection
        self._given: dict[str, object] = {"of_kind": kind, "before": before}
        self._condition = "kind = :of_kind"
        if before is not None:
            self._condition += " AND first_at < :before"
        self._dense: bool | None = None
        self._is_sqlite = connection.dialect.name == "sqlite"

    def told(self, identifiers: Sequence[bytes], batch: str, *, at: int | None) -> SightingRows:
        """Return what was seen with some identifiers; others that lie between may be there.

        Args:
            identifiers: a block of them, in ascending order.
            batch: the batch name at hand.
            at: the present instant, from which lately counts back; None where nothing is lately.
        """
        self._given |= {"batch": batch, "since": _NEVER if at is None else at - REWRITTEN_AFTER}
        lately = "batch = :batch AND last_at > :since"
        ((*joined,),) = self._found(self._whole, identifiers, f"AND {lately}")
        columns = [np.frombuffer(each or b"", np.uint8).reshape(-1, 16) for each in joined]
        others = "identifier, customer, batch <> :batch, bvn"
        rows = self._found(others, identifiers, f"AND NOT ({lately})")
        return SightingRows(np.hstack(columns), [Other.of(*row) for row in rows])

    @property
    def _whole(self) -> str:
        """Return what gives many sightings as one row: read as rows they cost twice as much."""
        if self._is_sqlite:
            columns = ("identifier", "customer", "COALESCE(bvn, zeroblob(16))")
            return ", ".join(f"CAST(group_concat({each}, '') AS BLOB)" for each in columns)
        columns = ("identifier", "customer", f"COALESCE(bvn, decode('{'00' * 16}', 'hex'))")
        order = "ORDER BY identifier, customer"
        return ", ".join(f"string_agg({each}, ''::bytea {order})" for each in columns)

    def _found(
        self, what: str, block: Sequence[bytes], more: str = ""
    ) -> Iterable[tuple[Any, ...]]:
        query = f"SELECT {what} FROM sightings WHERE {self._condition} {more}"  # noqa: S608 - nothing of it comes from outside
        limits = {"low": block[0], "high": block[-1]}
        if self._dense is None:
            most = _DENSE * len(block)
            some = f"SELECT 1 FROM sightings WHERE {self._condition} AND {_BETWEEN} LIMIT :most"  # noqa: S608 - nothing of it comes from outside
            self._dense = len(list(self._rows(some, {**limits, "most": most + 1}))) <= most
        if self._dense:
            return self._rows(f"{query} AND {_BETWEEN}", limits)
        if self._is_sqlite:
            each = zip(_names(len(block)), block, strict=True)
            return self._rows(f"{query} AND identifier IN ({_marks(len(block))})", dict(each))
        return self._rows(f"{query} AND identifier = ANY(:block)", {"block": list(block)})

    def _rows(self, query: str, given: Mapping[str, object]) -> Iterable[tuple[Any, ...]]:
        values = {**self._given, **given}
        if self._is_sqlite:
            return _fetched(self._connection.exec_driver_sql(query, values))
        return _fetched(self._connection.execute(text(query), values))


@lru_cache(maxsize=8)
def _names(number: int) -> tuple[str, ...]:
    return tuple(f"b{place}" for place in range(number))


@lru_cache(maxsize=8)
def _marks(number: int) -> str:
    """Return so many named values of SQLite's."""
    return ",".join(f":{name}" for name in _names(number))


def _fetched(result: CursorResult[Any]) -> Sequence[tuple[Any, ...]]:
    """Return all rows of a block as the driver has them."""
    cursor = result.cursor
    rows = [] if cursor is None else cursor.fetchall()
    result.close()
    return rows
