"""Customers' last answered states, sealed, the earlier states that runs replaced, and sightings.

A resumed run loses no state: the states it replaced are in the history, so that it is always
compared with the states from before it. `results/changes.py` judges what differs; `cases` has
reviews.

A sighting says which customer was seen with which BVN, account, phone, email and photograph. Both
are keyed pseudonyms; a customer has one pseudonym for all batches, so that the same `customer_id`
of a lender counts once. A sighting of an account has the BVN in the same row.
`planning/shared_identifiers.py` counts shared identifiers; `erasure` deletes a person's sightings.
"""

from __future__ import annotations

import json
from itertools import islice, starmap
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import bindparam, func, insert, literal, select, update

from nightscreen.files.sealing import pieces_of
from nightscreen.journal.database import blocks, insert_rows
from nightscreen.journal.schema import (
    STATE,
    customer_history,
    customer_states,
    runs,
    sightings,
)
from nightscreen.journal.storage import Part
from nightscreen.schemas.clock import DAY_MICROS
from nightscreen.schemas.decisions import CheckState, KnownCustomer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from sqlalchemy import ColumnElement, Row

    from nightscreen.schemas.decisions import State

_SCAN_ROWS = 20_000  # rows fetched at once: bounds memory, apart from the pseudonyms
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
"""Made once: `json.dumps` makes one for each state, which takes as long as encoding it."""
_KEPT = ("customer", "run_id", "decided_at", "gone_run_id", "state")  # copied to the history


class StateWrite(NamedTuple):
    """A customer's new state; if it `differs` in a value, the old one goes to the history."""

    customer: bytes
    sealed: bytes
    differs: bool


class Customers(Part):
    """Reads and writes customers' states."""

    def seal(self, customer: bytes, state: State) -> bytes:
        """Return a state sealed for its customer."""
        return self._sealer.seal(_ENCODER.encode(state).encode(), STATE.context(customer))

    def _known(self, row: Row[Any]) -> KnownCustomer:
        sealed = self._sealer.open(bytes(row.state), STATE.context(bytes(row.customer)))
        state = {name: CheckState(*part) for name, part in json.loads(sealed).items()}
        return KnownCustomer(state, row.run_id, row.decided_at, row.gone_run_id)

    def known(self, customers: Sequence[bytes]) -> dict[bytes, KnownCustomer]:
        """Return the current state of each customer that has one."""
        found: dict[bytes, KnownCustomer] = {}
        for block in blocks(customers):
            for row in self._database.fetch(_STATES, {"customers": block}):
                found[bytes(row.customer)] = self._known(row)
        return found

    def known_before(self, customers: Sequence[bytes], instant: int) -> dict[bytes, KnownCustomer]:
        """Return each customer's state before an instant, without those not known then."""
        now, then = customer_states.c, customer_history.c
        present = select(customer_states).where(now.first_at < instant)
        earlier = select(customer_history).where(then.replaced_at >= instant)
        earlier = earlier.order_by(then.replaced_at.desc(), then.history_id.desc())
        rows: dict[bytes, Row[Any]] = {}
        with self._database.reading() as connection:
            for block in blocks(customers):
                found = connection.execute(present.where(now.customer.in_(block)))
                rows |= {bytes(row.customer): row for row in found}
                for row in connection.execute(earlier.where(then.customer.in_(block))):
                    if bytes(row.customer) in rows:
                        rows[bytes(row.customer)] = row
        return {customer: self._known(row) for customer, row in rows.items()}

    def members(self, batch: str, run_id: str) -> bytes:
        """Return the joined pseudonyms of a batch's customers whom no other run reported gone."""
        gone = customer_states.c.gone_run_id
        return self._of_batch(batch, gone.is_(None) | (gone == run_id))

    def gone(self, batch: str) -> list[bytes]:
        """Return the customers of a batch whom a run reported gone."""
        return pieces_of(self._of_batch(batch, customer_states.c.gone_run_id.is_not(None)))

    def _of_batch(self, batch: str, which: ColumnElement[bool]) -> bytes:
        kept = customer_states.c
        query = select(kept.customer).where(kept.batch == batch, which)
        with self._database.reading() as connection:
            streamed = connection.execution_options(yield_per=_SCAN_ROWS)
            return b"".join(streamed.execute(query).scalars())

    def begin(self, run_id: str) -> int:
        """Record that a run starts to write states; return a unique instant for it."""
        kept = runs.c
        with self._database.writing() as connection:
            latest = connection.execute(select(func.max(kept.states_last_at))).scalar() or 0
            at = max(self._clock(), int(latest) + 1)
            first = func.coalesce(kept.states_first_at, at)
            now = {"states_first_at": first, "states_last_at": at}
            connection.execute(update(runs).where(kept.run_id == run_id).values(now))
        return at

    def replace(self, run_id: str, batch: str, at: int, writes: Sequence[StateWrite]) -> None:
        """Replace states by new ones, and move the old ones to the history."""
        differing = [each.customer for each in writes if each.differs]
        rows = [(each.customer, batch, run_id, at, at, None, each.sealed) for each in writes]
        with self._database.writing() as connection:
            for block in blocks(differing):
                old = select(*(customer_states.c[name] for name in _KEPT), literal(at)).where(
                    customer_states.c.customer.in_(block)
                )
                history = insert(customer_history).from_select([*_KEPT, "replaced_at"], old)
                connection.execute(history)
            insert_rows(connection, customer_states, rows, changed=_AS_NOW)

    def mark_gone(self, run_id: str, customers: Sequence[bytes]) -> None:
        """Record which customers a run reported gone."""
        mark = update(customer_states).values(gone_run_id=run_id)
        some = [mark.where(customer_states.c.customer.in_(block)) for block in blocks(customers)]
        self._database.execute(*some)

    def history(self, customer: bytes) -> list[KnownCustomer]:
        """Return a customer's states before the current one, oldest first."""
        query = (
            select(customer_history)
            .where(customer_history.c.customer == customer)
            .order_by(customer_history.c.history_id)
        )
        return [self._known(row) for row in self._database.fetch(query)]


_CHANGES = ("run_id", "decided_at", "gone_run_id", "state")  # all but when it was first seen
_AS_NOW = ", ".join(f"{name} = excluded.{name}" for name in _CHANGES)


# --- sightings of their identifiers ---

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


class Sightings(Part):
    """Reads and writes sightings."""

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
        return list(starmap(Seen, self._database.fetch(query, given)))

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
            with self._database.writing() as connection:
                insert_rows(connection, sightings, rows, changed=_SEEN_AGAIN, where=_REWRITTEN)

    def last_seen_with(self, kind: str, identifier: bytes) -> dict[bytes, bool]:
        """Return the customers seen with an identifier, and whether none of its kind came later."""
        kept = sightings.c
        seen = select(kept.customer, func.max(kept.last_at)).where(kept.kind == kind)
        database = self._database
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
        rows = self._database.fetch(query)
        return [IdentifierUse(row[0], bytes(row[1]), *row[2:]) for row in rows]


_STATES = select(customer_states).where(
    customer_states.c.customer.in_(bindparam("customers", expanding=True))
)
"""Made once: a statement that holds a thousand pseudonyms takes as long as reading their rows."""
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
