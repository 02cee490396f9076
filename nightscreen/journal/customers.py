"""Customers' last answered states, sealed, and the earlier states that runs replaced.

A resumed run loses no state: the states it replaced are in the history, so that it is always
compared with the states from before it. `results/changes.py` judges what differs; `cases` has
reviews.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sqlalchemy import func, insert, literal, select, update

from nightscreen.journal.database import blocks, insert_rows
from nightscreen.journal.schema import (
    STATE,
    customer_history,
    customer_states,
    runs,
)
from nightscreen.schemas.decisions import CheckState, KnownCustomer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Row

    from nightscreen.journal.storage import Storage
    from nightscreen.schemas.decisions import State

_SCAN_ROWS = 20_000  # rows fetched at once: bounds memory, apart from 24 bytes for each customer
_SIXTEEN = "S16"
_KEPT = ("customer", "run_id", "decided_at", "gone_run_id", "state")  # copied to the history


class StateWrite(NamedTuple):
    """A customer's new state; if it `differs` in a value, the old one goes to the history."""

    customer: bytes
    sealed: bytes
    differs: bool


@dataclass(frozen=True, slots=True)
class Members:
    """A batch's customers without their states, in ascending order."""

    customers: NDArray[np.bytes_]  # pseudonyms
    gone: NDArray[np.bool_]  # whether a run reported each gone
    gone_before: NDArray[np.bool_]  # whether that was another run than the current one

    def places(self, subjects: bytes) -> NDArray[np.int64]:
        """Return the index of each of some joined pseudonyms, -1 if unknown."""
        asked = np.frombuffer(subjects, _SIXTEEN)
        if not len(self.customers):
            return np.full(len(asked), -1, np.int64)
        place = np.minimum(np.searchsorted(self.customers, asked), len(self.customers) - 1)
        return np.where(self.customers[place] == asked, place, -1)

    def customer(self, place: int) -> bytes:
        """Return a customer's pseudonym."""
        return self.customers[place : place + 1].tobytes()


@dataclass(frozen=True, slots=True)
class Customers:
    """Reads and writes customers' states."""

    _journal: Storage = field(repr=False)

    def seal(self, customer: bytes, state: State) -> bytes:
        """Return a state sealed for its customer."""
        text = json.dumps(state, separators=(",", ":"), ensure_ascii=False)
        return self._journal.sealer.seal(text.encode(), STATE.context(customer))

    def _known(self, row: Row[Any]) -> KnownCustomer:
        sealed = self._journal.sealer.open(bytes(row.state), STATE.context(bytes(row.customer)))
        state = {name: CheckState(*part) for name, part in json.loads(sealed).items()}
        return KnownCustomer(state, row.run_id, row.decided_at, row.gone_run_id)

    def known(self, customers: Sequence[bytes]) -> dict[bytes, KnownCustomer]:
        """Return the current state of each customer that has one."""
        found: dict[bytes, KnownCustomer] = {}
        for block in blocks(customers):
            query = select(customer_states).where(customer_states.c.customer.in_(block))
            for row in self._journal.database.fetch(query):
                found[bytes(row.customer)] = self._known(row)
        return found

    def known_before(self, customers: Sequence[bytes], instant: int) -> dict[bytes, KnownCustomer]:
        """Return each customer's state before an instant, without those not known then."""
        now, then = customer_states.c, customer_history.c
        present = select(customer_states).where(now.first_at < instant)
        earlier = select(customer_history).where(then.replaced_at >= instant)
        earlier = earlier.order_by(then.replaced_at.desc(), then.history_id.desc())
        rows: dict[bytes, Row[Any]] = {}
        with self._journal.database.reading() as connection:
            for block in blocks(customers):
                found = connection.execute(present.where(now.customer.in_(block)))
                rows |= {bytes(row.customer): row for row in found}
                for row in connection.execute(earlier.where(then.customer.in_(block))):
                    if bytes(row.customer) in rows:
                        rows[bytes(row.customer)] = row
        return {customer: self._known(row) for customer, row in rows.items()}

    def members(self, batch: str, run_id: str) -> Members:
        """Return a batch's customers, in 24 bytes each."""
        kept = customer_states.c
        query = select(kept.customer, kept.gone_run_id).where(kept.batch == batch)
        customers: list[bytes] = []
        runs: list[str | None] = []
        with self._journal.database.reading() as connection:
            streamed = connection.execution_options(yield_per=_SCAN_ROWS)
            for customer, gone in streamed.execute(query.order_by(kept.customer)):
                customers.append(customer)
                runs.append(gone)
        return Members(
            np.frombuffer(b"".join(customers), _SIXTEEN),
            np.array([gone is not None for gone in runs], bool),
            np.array([gone not in {None, run_id} for gone in runs], bool),
        )

    def begin(self, run_id: str) -> int:
        """Record that a run starts to write states; return a unique instant for it."""
        kept = runs.c
        with self._journal.database.writing() as connection:
            latest = connection.execute(select(func.max(kept.states_last_at))).scalar() or 0
            at = max(self._journal.clock(), int(latest) + 1)
            first = func.coalesce(kept.states_first_at, at)
            now = {"states_first_at": first, "states_last_at": at}
            connection.execute(update(runs).where(kept.run_id == run_id).values(now))
        return at

    def replace(self, run_id: str, batch: str, at: int, writes: Sequence[StateWrite]) -> None:
        """Replace states by new ones, and move the old ones to the history."""
        differing = [each.customer for each in writes if each.differs]
        rows = [(each.customer, batch, run_id, at, at, None, each.sealed) for each in writes]
        with self._journal.database.writing() as connection:
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
        self._journal.database.execute(*some)

    def history(self, customer: bytes) -> list[KnownCustomer]:
        """Return a customer's states before the current one, oldest first."""
        query = (
            select(customer_history)
            .where(customer_history.c.customer == customer)
            .order_by(customer_history.c.history_id)
        )
        return [self._known(row) for row in self._journal.database.fetch(query)]


_CHANGES = ("run_id", "decided_at", "gone_run_id", "state")  # all but when it was first seen
_AS_NOW = ", ".join(f"{name} = excluded.{name}" for name in _CHANGES)
