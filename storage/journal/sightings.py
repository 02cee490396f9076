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
    or_,
    select,
)

from storage.clock import DAY_MICROS
from storage.journal.customer_tables import customer_commits
from storage.journal.engine import reading, writing
from storage.journal.statements import Many, insert_into
from storage.journal.tables import metadata

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from sqlalchemy import ColumnElement, Connection, Engine, Select
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
            block = seen[start : start + _WRITE_BLOCK]
            rows = [(kind, each[0], each[1], batch, each[2], at, at) for each in block]
            with writing(self._engine) as connection:
                _KEEP.run(connection, rows)

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
    week: ColumnElement[int] = literal_column(str(REWRITTEN_AFTER))
    stale = sightings.c.last_at < new.last_at - week
    keep: UpdateBase = statement.on_conflict_do_update(
        index_elements=list(sightings.primary_key.columns),
        set_={"last_at": new.last_at, "bvn": new.bvn},
        where=or_(stale, sightings.c.bvn.is_distinct_from(new.bvn)),
    )
    return keep


_KEEP = Many(_keep, sightings.c.keys())


class Reading:
    """Reads sightings of one kind past SQLAlchemy's rows, which cost more than the reading."""

    def __init__(self, connection: Connection, kind: str, before: int | None) -> None:
        self._connection = connection
        self._kind = kind
        self._before = before
        self._dense: bool | None = None

    def customers(self, identifiers: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Yield identifier and customer of what was seen; others that lie between may be there."""
        yield from self._found(("identifier", "customer"), identifiers)

    def accounts(
        self, identifiers: Sequence[bytes]
    ) -> Iterator[tuple[bytes, bytes, str, bytes | None]]:
        """Yield account, customer, batch and BVN of what was seen; others may be there."""
        yield from self._found(("identifier", "customer", "batch", "bvn"), identifiers)

    def _found(self, names: tuple[str, ...], block: Sequence[bytes]) -> Iterator[tuple[Any, ...]]:
        limits = {"low": block[0], "high": block[-1]}
        if self._dense is None:
            most = _DENSE * len(block)
            some = _query(names, self._before, "range").limit(most + 1)
            self._dense = len(list(self._rows(some, limits))) <= most
        if self._dense:
            return self._rows(_query(names, self._before, "range"), limits)
        return self._rows(_query(names, self._before, "each"), {"block": list(block)})

    def _rows(self, query: Select[Any], values: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
        given = {"of_kind": self._kind, "before": self._before, **values}
        result = self._connection.execute(query, given)
        cursor = result.cursor
        if cursor is not None:
            while rows := cursor.fetchmany(_FETCH):
                yield from rows
        result.close()


def _query(names: Sequence[str], before: int | None, how: str) -> Select[Any]:
    """Return the query of a kind's sightings by a range of identifiers, or by each of some."""
    kept = sightings.c
    query = select(*(kept[name] for name in names)).where(kept.kind == bindparam("of_kind"))
    if before is not None:
        query = query.where(kept.first_at < bindparam("before"))
    if how == "range":
        return query.where(kept.identifier.between(bindparam("low"), bindparam("high")))
    return query.where(kept.identifier.in_(bindparam("block", expanding=True)))
