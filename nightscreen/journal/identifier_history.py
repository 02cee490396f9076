"""Sightings: which customer was seen with which BVN, account, phone, email and photograph.

Keyed pseudonyms on both sides, never an identifier; a customer has one pseudonym for all batch
names, so that the same `customer_id` of a lender counts once. A sighting of an account tells the
BVN it stood under. What sharing means is counted in `planning/shared_identifiers.py`; how a
person's sightings go is in `erasure`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice, starmap
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import bindparam, func, select

from nightscreen.journal.database import insert_rows
from nightscreen.journal.schema import sightings
from nightscreen.schemas.clock import DAY_MICROS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from nightscreen.journal.storage import Storage

BLOCK = 4000
REWRITTEN_AFTER = 7 * DAY_MICROS
"""A sighting is written again a week after it was last written, not every night."""
_WRITE_ROWS = 20_000  # of one transaction: between two of them other writers have their turn
_NEVER = 2**63 - 1  # the highest number that the database holds: nothing was seen after it


class IdentifierUse(NamedTuple):
    """One sighting that is kept of a customer; instants in microseconds."""

    kind: str
    identifier: bytes
    batch: str
    first_at: int
    last_at: int


class Seen(NamedTuple):
    """A sighting of an identifier.

    Attributes:
        elsewhere: it is of another batch name than the one at hand.
        bvn: of an account, the BVN it stood under.
        lately: it is of the batch at hand and was written in the last week.
    """

    identifier: bytes
    customer: bytes
    elsewhere: bool
    bvn: bytes | None
    lately: bool


@dataclass(frozen=True, slots=True)
class Sightings:
    """Reads and writes sightings."""

    _journal: Storage = field(repr=False)

    def seen_with(
        self,
        kind: str,
        identifiers: Sequence[bytes],
        batch: str,
        *,
        before: int | None = None,
        at: int | None = None,
    ) -> list[Seen]:
        """Return what was seen with some identifiers of a kind, at most `BLOCK` of them.

        Args:
            kind: of the identifiers.
            identifiers: in ascending order, as the index has them.
            batch: the batch name at hand.
            before: only what was first seen before this instant; None for everything.
            at: the present instant, from which lately counts back; None where nothing is lately.
        """
        kept = sightings.c
        since = _NEVER if at is None else at - REWRITTEN_AFTER
        query = _SEEN if before is None else _SEEN.where(kept.first_at < before)
        given = {"of_kind": kind, "some": identifiers, "of_batch": batch, "since": since}
        return list(starmap(Seen, self._journal.database.fetch(query, given)))

    def keep(
        self, kind: str, batch: str, seen: Iterable[tuple[bytes, bytes, bytes | None]], *, at: int
    ) -> None:
        """Write sightings down, or that they were seen again; the same twice is once.

        One that is there and was written in the last week is left alone.

        Args:
            kind: of the identifiers.
            batch: the batch name they were seen in.
            seen: identifier, customer and BVN of each, None where there is none; in ascending
                order, which keeps neighbours on the same pages. A customer has an identifier once.
            at: the instant they count from.
        """
        every = iter(seen)
        while block := list(islice(every, _WRITE_ROWS)):
            rows = [(kind, who, customer, batch, bvn, at, at) for who, customer, bvn in block]
            with self._journal.database.writing() as connection:
                insert_rows(connection, sightings, rows, changed=_SEEN_AGAIN, where=_REWRITTEN)

    def last_seen_with(self, kind: str, identifier: bytes) -> dict[bytes, bool]:
        """Return who was seen with an identifier, and whether with no other of its kind later."""
        kept = sightings.c
        seen = select(kept.customer, func.max(kept.last_at)).where(kept.kind == kind)
        database = self._journal.database
        mine = seen.where(kept.identifier == identifier).group_by(kept.customer)
        last = {bytes(who): at for who, at in database.fetch(mine)}
        others = seen.where(kept.identifier != identifier, kept.customer.in_(last))
        other = {bytes(who): at for who, at in database.fetch(others.group_by(kept.customer))}
        return {who: at >= other.get(who, 0) for who, at in last.items()}

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
        rows = self._journal.database.fetch(query)
        return [IdentifierUse(row[0], bytes(row[1]), *row[2:]) for row in rows]


_OF_BATCH = sightings.c.batch == bindparam("of_batch")
_SEEN = select(
    sightings.c.identifier,
    sightings.c.customer,
    ~_OF_BATCH,
    sightings.c.bvn,
    _OF_BATCH & (sightings.c.last_at > bindparam("since")),
).where(
    sightings.c.kind == bindparam("of_kind"),
    sightings.c.identifier.in_(bindparam("some", expanding=True)),
)
_SEEN_AGAIN = "last_at = excluded.last_at, bvn = excluded.bvn"
_REWRITTEN = (
    f"sightings.last_at <= excluded.last_at - {REWRITTEN_AFTER} OR sightings.bvn <> excluded.bvn "
    "OR (sightings.bvn IS NULL) <> (excluded.bvn IS NULL)"
)
