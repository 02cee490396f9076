"""Sightings: which customer was seen with which BVN, account, phone, email and photograph.

Keyed pseudonyms on both sides, never an identifier; a customer has one pseudonym for all batch
names, so that the same `customer_id` of a lender counts once. A sighting of an account tells the
BVN it stood under. What sharing means is counted in `steps/signals.py`; how a person's sightings
go is in `erasure`.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    LargeBinary,
    Table,
    Text,
    bindparam,
    literal_column,
    select,
)

from storage.clock import DAY_MICROS
from storage.journal.customer_tables import customer_commits
from storage.journal.engine import reading, writing
from storage.journal.statements import Many, insert_into, marks
from storage.journal.tables import metadata

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from sqlalchemy import Connection, CursorResult, Engine, Select
    from sqlalchemy.sql.dml import UpdateBase

    from storage.journal import Journal

sightings = Table(
    "sightings",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("identifier", LargeBinary, primary_key=True),
    Column("customer", LargeBinary, primary_key=True),  # the same in every batch name
    Column("batch", Text, primary_key=True),
    Column("bvn", LargeBinary),  # of an account: the BVN it stood under
    Column("first_at", BigInteger, nullable=False),
    Column("last_at", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

BLOCK = 1000
REWRITTEN_AFTER = 7 * DAY_MICROS
"""A sighting is written again a week after it was last written, not every night."""
_WRITE_BLOCK = 20_000
_DENSE = 3  # sightings per identifier up to which reading whole ranges is quicker
_FETCH = 1000
_JOINED = "CAST(identifier || customer || COALESCE(bvn, '') AS {blob})"


class Seen(NamedTuple):
    """One sighting that is kept of a customer; instants in microseconds."""

    kind: str
    identifier: bytes
    batch: str
    first_at: int
    last_at: int


class Sighting(NamedTuple):
    """One identifier of one customer in a batch; `bvn` only of an account."""

    identifier: bytes
    customer: bytes
    bvn: bytes | None


@dataclass(frozen=True, slots=True)
class Sightings:
    """Reads and writes sightings."""

    _engine: Engine = field(repr=False)

    @classmethod
    def of(cls, journal: Journal) -> Sightings:
        """Return the sightings of an open journal."""
        return cls(journal.engine)

    def horizon(self, run_id: str) -> int | None:
        """Return the instant before which sightings are earlier than a run; None where all are.

        A run that is taken up again counts what it counted when its states were first written.
        """
        kept = customer_commits.c
        query = select(kept.first_at).where(kept.run_id == run_id)
        with reading(self._engine) as connection:
            return connection.execute(query).scalar()

    @contextmanager
    def reading_of(self, kind: str, *, before: int | None = None) -> Iterator[Reading]:
        """Read sightings of one kind, only those first seen before an instant where one is given.

        To be asked for `BLOCK` distinct identifiers at a time, in ascending order. Where the
        journal knows few more than are asked about, whole ranges are read, else each is looked for.
        """
        with reading(self._engine) as connection:
            yield Reading(connection, kind, before)

    def keep(self, kind: str, batch: str, seen: Sequence[Sighting], *, at: int) -> None:
        """Write sightings down, or that they were seen again; the same twice is once.

        Args:
            kind: of the identifiers.
            batch: the batch name they were seen in.
            seen: in ascending order, which keeps neighbours on the same pages.
            at: the instant they count from.
        """
        for start in range(0, len(seen), _WRITE_BLOCK):
            fresh = self._fresh(kind, batch, seen[start : start + _WRITE_BLOCK], at)
            rows = [(kind, each[0], each[1], batch, each[2], at, at) for each in fresh]
            if rows:
                with writing(self._engine) as connection:
                    _KEEP.run(connection, rows)

    def unwritten(
        self,
        kind: str,
        batch: str,
        identifiers: Sequence[bytes],
        keys: Sequence[bytes],
        *,
        at: int,
    ) -> Iterator[int]:
        """Yield the places of sightings that are not there, or were last written a week before.

        Args:
            kind: of the identifiers.
            batch: the batch name they were seen in.
            identifiers: in ascending order, a place for each sighting.
            keys: identifier, customer and, where there is one, BVN of each sighting, joined.
            at: the instant they count from.
        """
        with self.reading_of(kind) as read:
            for start in range(0, len(keys), BLOCK):
                distinct = list(dict.fromkeys(identifiers[start : start + BLOCK]))
                there = read.written(distinct, batch, at - REWRITTEN_AFTER)
                block = enumerate(keys[start : start + BLOCK], start)
                yield from (place for place, key in block if key not in there)

    def _fresh(
        self, kind: str, batch: str, seen: Sequence[Sighting], at: int
    ) -> Iterator[Sighting]:
        """Yield the sightings that are not there, or were last written a week before."""
        identifiers = [each.identifier for each in seen]
        keys = [b"".join((each[0], each[1], each[2] or b"")) for each in seen]
        for place in self.unwritten(kind, batch, identifiers, keys, at=at):
            yield seen[place]

    def of_customers(self, customers: Collection[bytes], batches: Collection[str]) -> list[Seen]:
        """Return what is kept of some customers in some batch names, oldest first."""
        kept = sightings.c
        query = (
            select(kept.kind, kept.identifier, kept.batch, kept.first_at, kept.last_at)
            .where(kept.customer.in_(customers), kept.batch.in_(batches))
            .order_by(kept.first_at, kept.kind, kept.identifier)
        )
        with reading(self._engine) as connection:
            rows = connection.execute(query).all()
        return [Seen(row[0], bytes(row[1]), *row[2:]) for row in rows]


def _keep(dialect: str) -> UpdateBase:
    statement = insert_into(dialect, sightings)
    new = statement.excluded
    keep: UpdateBase = statement.on_conflict_do_update(
        index_elements=list(sightings.primary_key.columns),
        set_={"last_at": new.last_at, "bvn": new.bvn},
    )
    return keep


_KEEP = Many(_keep, sightings.c.keys())


class Reading:
    """Reads sightings of one kind past SQLAlchemy's rows, which cost more than the reading."""

    def __init__(self, connection: Connection, kind: str, before: int | None) -> None:
        self._connection = connection
        self._kind = kind
        self._before = before
        self._batch: str | None = None
        self._since = 0
        self._dense: bool | None = None
        self._ranges: dict[tuple[str, ...], Select[Any]] = {}

    def customers(self, identifiers: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Yield identifier and customer of what was seen; others that lie between may be there."""
        yield from self._found(("identifier", "customer"), identifiers)

    def accounts(
        self, identifiers: Sequence[bytes]
    ) -> Iterator[tuple[bytes, bytes, str, bytes | None]]:
        """Yield account, customer, batch and BVN of what was seen; others may be there."""
        yield from self._found(("identifier", "customer", "batch", "bvn"), identifiers)

    def written(self, identifiers: Sequence[bytes], batch: str, since: int) -> set[bytes]:
        """Return what was written in a batch name after an instant; other identifiers too.

        Identifier, customer and BVN are joined: one value a row is read twice as fast as three.
        """
        self._batch, self._since = batch, since
        blob = "BYTEA" if self._connection.dialect.name == "postgresql" else "BLOB"
        joined = _JOINED.format(blob=blob)
        return {bytes(row[0]) for row in self._found((joined,), identifiers)}

    def _found(self, names: tuple[str, ...], block: Sequence[bytes]) -> Iterator[tuple[Any, ...]]:
        if self._dense is None:
            most = _DENSE * len(block)
            some = self._range(names).limit(most + 1)
            self._dense = len(list(self._rows(some, block))) <= most
        if self._dense:
            return self._rows(self._range(names), block)
        if self._connection.dialect.name == "sqlite":
            return self._each_sqlite(names, block)
        kept = sightings.c
        each = self._of_kind(names).where(kept.identifier.in_(bindparam("block", expanding=True)))
        return self._rows(each, block)

    def _of_kind(self, names: Sequence[str]) -> Select[Any]:
        kept = sightings.c
        query = select(*map(literal_column, names)).where(kept.kind == bindparam("of_kind"))
        if self._batch is not None:
            mine = kept.batch == bindparam("batch")
            query = query.where(mine, kept.last_at > bindparam("since"))
        return query if self._before is None else query.where(kept.first_at < bindparam("before"))

    def _range(self, names: tuple[str, ...]) -> Select[Any]:
        if names not in self._ranges:
            between = sightings.c.identifier.between(bindparam("low"), bindparam("high"))
            self._ranges[names] = self._of_kind(names).where(between)
        return self._ranges[names]

    def _rows(self, query: Select[Any], block: Sequence[bytes]) -> Iterator[tuple[Any, ...]]:
        given = {"of_kind": self._kind, "before": self._before, "block": list(block)}
        limits = {"low": block[0], "high": block[-1], "batch": self._batch, "since": self._since}
        return _fetched(self._connection.execute(query, {**given, **limits}))

    def _each_sqlite(self, names: Sequence[str], block: Sequence[bytes]) -> Iterator[Any]:
        """Look for each identifier past SQLAlchemy, whose lists of values cost more than that."""
        sql = (
            f"SELECT {', '.join(names)} FROM sightings "  # noqa: S608 - nothing of it comes from outside
            f"WHERE kind = ? AND identifier IN ({marks(len(block))})"
        )
        values: tuple[object, ...] = (self._kind, *block)
        if self._before is not None:
            sql, values = f"{sql} AND first_at < ?", (*values, self._before)
        if self._batch is not None:
            sql = f"{sql} AND batch = ? AND last_at > ?"
            values = (*values, self._batch, self._since)
        return _fetched(self._connection.exec_driver_sql(sql, values))


def _fetched(result: CursorResult[Any]) -> Iterator[tuple[Any, ...]]:
    cursor = result.cursor
    if cursor is not None:
        while rows := cursor.fetchmany(_FETCH):
            yield from rows
    result.close()
