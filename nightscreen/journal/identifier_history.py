"""Sightings: which customer was seen with which BVN, account, phone, email and photograph.

Both are keyed pseudonyms; a customer has one pseudonym for all batches, so that the same
`customer_id` of a lender counts once. A sighting of an account has the BVN in the same row.
`planning/shared_identifiers.py` counts shared identifiers; `erasure` deletes a person's sightings.
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
"""A sighting is updated only if a week has passed since it was last written."""
_WRITE_ROWS = 20_000  # in one transaction, so that other writers can write in between
_NEVER = 2**63 - 1  # the highest number that the database holds: nothing was seen after it


class IdentifierUse(NamedTuple):
    """One stored sighting of a customer; instants in microseconds."""

    kind: str
    identifier: bytes
    batch: str
    first_at: int
    last_at: int


class Seen(NamedTuple):
    """A sighting of an identifier.

    Attributes:
        elsewhere: whether it is of another batch than the current one.
        bvn: for an account, the BVN in the same row.
        lately: whether it is of the current batch and was written in the last week.
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
        """Return the sightings of some identifiers of a kind, at most `BLOCK` of them.

        Args:
            kind: the kind of the identifiers.
            identifiers: in ascending order, like the index.
            batch: the current batch.
            before: only sightings first seen before this instant; None for all.
            at: the current instant, from which the last week counts; None for `lately` never true.
        """
        kept = sightings.c
        since = _NEVER if at is None else at - REWRITTEN_AFTER
        query = _SEEN if before is None else _SEEN.where(kept.first_at < before)
        given = {"of_kind": kind, "some": identifiers, "of_batch": batch, "since": since}
        return list(starmap(Seen, self._journal.database.fetch(query, given)))

    def keep(
        self, kind: str, batch: str, seen: Iterable[tuple[bytes, bytes, bytes | None]], *, at: int
    ) -> None:
        """Save sightings, or update when they were last seen; safe to repeat.

        A sighting that was written in the last week is not updated.

        Args:
            kind: the kind of the identifiers.
            batch: the batch they were seen in.
            seen: identifier, customer and BVN (or None) of each, in ascending order, which keeps
                neighbours on the same pages. A customer has an identifier once.
            at: the instant of the sightings.
        """
        every = iter(seen)
        while block := list(islice(every, _WRITE_ROWS)):
            rows = [(kind, who, customer, batch, bvn, at, at) for who, customer, bvn in block]
            with self._journal.database.writing() as connection:
                insert_rows(connection, sightings, rows, changed=_SEEN_AGAIN, where=_REWRITTEN)

    def last_seen_with(self, kind: str, identifier: bytes) -> dict[bytes, bool]:
        """Return the customers seen with an identifier, and whether none of its kind came later."""
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
        """Return the stored sightings of some customers in some batches, oldest first."""
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
