"""Each customer's last answered state, sealed, and as it was before any run replaced it.

A state is never lost by a run that is taken up again: what it replaced lies in the history, so that
the run is always compared with the state before it. What differs is judged in `steps/changes.py`;
reviews are in `reviews`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import delete, func, insert, literal, select, update
from sqlalchemy.dialects import postgresql, sqlite

from schemas.decisions import KnownCustomer, Part, State
from storage.journal.customer_tables import (
    customer_commits,
    customer_history,
    customer_states,
    ensure,
    reviews,
)
from storage.journal.engine import reading, writing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sqlalchemy import Connection, Engine

    from storage.clock import Clock
    from storage.journal import Journal
    from storage.sealing import Sealer

_BLOCK = 500
SCAN_BLOCK = 5000


class StateWrite(NamedTuple):
    """A customer's new state; `differs` where a value changed, so that the old one is kept."""

    customer: bytes
    sealed: bytes
    differs: bool


class Present(NamedTuple):
    """A customer who was in the batch, and by which run and when that was last written."""

    customer: bytes
    run_id: str
    decided_at: int


class Commit(NamedTuple):
    """When a run's states were first and last written."""

    batch: str
    first_at: int
    last_at: int


@dataclass(frozen=True, slots=True)
class Customers:
    """Reads and writes customers' states."""

    _engine: Engine = field(repr=False)
    _sealer: Sealer = field(repr=False)
    _clock: Clock = field(repr=False)

    @classmethod
    def of(cls, journal: Journal) -> Customers:
        """Return the customers of an open journal."""
        ensure(journal.engine)
        return cls(journal.engine, journal.sealer, journal.clock)

    def seal(self, customer: bytes, state: State) -> bytes:
        """Return a state sealed for its customer."""
        text = json.dumps(state, separators=(",", ":"), ensure_ascii=False)
        return self._sealer.seal(text.encode(), state_context(customer))

    def _open(self, customer: bytes, sealed: bytes) -> State:
        found = json.loads(self._sealer.open(sealed, state_context(customer)))
        return {name: Part(*part) for name, part in found.items()}

    def commit_of(self, run_id: str) -> Commit | None:
        """Return when a run's states were written; None where they never were."""
        kept = customer_commits.c
        query = select(kept.batch, kept.first_at, kept.last_at).where(kept.run_id == run_id)
        with reading(self._engine) as connection:
            row = connection.execute(query).first()
        return None if row is None else Commit(*row)

    def latest_run(self, batch: str) -> str | None:
        """Return the run of a batch name that was begun to be written last."""
        query = (
            select(customer_commits.c.run_id)
            .where(customer_commits.c.batch == batch)
            .order_by(customer_commits.c.first_at.desc())
            .limit(1)
        )
        with reading(self._engine) as connection:
            return connection.execute(query).scalar()

    def batches(self) -> list[str]:
        """Return the batch names that have customers."""
        with reading(self._engine) as connection:
            found = connection.execute(select(customer_commits.c.batch).distinct()).scalars()
            return sorted(found)

    def known(self, customers: Sequence[bytes]) -> dict[bytes, KnownCustomer]:
        """Return the present state of each customer that has one."""
        found: dict[bytes, KnownCustomer] = {}
        with reading(self._engine) as connection:
            for block in _blocks(customers):
                for row in connection.execute(
                    select(customer_states).where(customer_states.c.customer.in_(block))
                ):
                    customer = bytes(row.customer)
                    state = self._open(customer, bytes(row.state))
                    found[customer] = KnownCustomer(
                        state, row.run_id, row.decided_at, row.gone_run_id
                    )
        return found

    def known_before(self, customers: Sequence[bytes], instant: int) -> dict[bytes, KnownCustomer]:
        """Return the state each customer had before an instant; none of those not yet known."""
        found: dict[bytes, KnownCustomer] = {}
        with reading(self._engine) as connection:
            for block in _blocks(customers):
                found.update(self._block_before(connection, block, instant))
        return found

    def _block_before(
        self, connection: Connection, block: Sequence[bytes], instant: int
    ) -> dict[bytes, KnownCustomer]:
        now = select(customer_states).where(
            customer_states.c.customer.in_(block), customer_states.c.first_at < instant
        )
        then = (
            select(customer_history)
            .where(
                customer_history.c.customer.in_(block), customer_history.c.replaced_at >= instant
            )
            .order_by(customer_history.c.replaced_at.desc(), customer_history.c.history_id.desc())
        )
        rows = {bytes(row.customer): row for row in connection.execute(now)}
        for row in connection.execute(then):
            if bytes(row.customer) in rows:
                rows[bytes(row.customer)] = row
        return {
            customer: KnownCustomer(
                self._open(customer, bytes(row.state)), row.run_id, row.decided_at, row.gone_run_id
            )
            for customer, row in rows.items()
        }

    def present(self, batch: str, run_id: str) -> Iterator[list[Present]]:
        """Yield a batch name's customers in order, but for those an earlier run told gone."""
        last = b""
        kept, gone = customer_states.c, customer_states.c.gone_run_id
        while True:
            query = (
                select(kept.customer, kept.run_id, kept.decided_at)
                .where(
                    customer_states.c.batch == batch,
                    customer_states.c.customer > last,
                    gone.is_(None) | (gone == run_id),
                )
                .order_by(customer_states.c.customer)
                .limit(SCAN_BLOCK)
            )
            with reading(self._engine) as connection:
                rows = connection.execute(query).all()
            if not rows:
                return
            yield [Present(bytes(row[0]), row[1], row[2]) for row in rows]
            last = bytes(rows[-1][0])

    def begin(self, run_id: str, batch: str) -> int:
        """Note that a run's states are about to be written; return an instant of its own."""
        with writing(self._engine) as connection:
            latest = connection.execute(select(func.max(customer_commits.c.last_at))).scalar() or 0
            at = max(self._clock(), int(latest) + 1)
            known = connection.execute(
                update(customer_commits)
                .where(customer_commits.c.run_id == run_id)
                .values(last_at=at)
            ).rowcount
            if not known:
                row = {"run_id": run_id, "batch": batch, "first_at": at, "last_at": at}
                connection.execute(insert(customer_commits), row)
        return at

    def replace(self, run_id: str, batch: str, at: int, writes: Sequence[StateWrite]) -> None:
        """Put new states in the place of old ones, and the old ones into the history."""
        if not writes:
            return
        differing = [each.customer for each in writes if each.differs]
        rows = [
            {
                "customer": each.customer,
                "batch": batch,
                "run_id": run_id,
                "first_at": at,
                "decided_at": at,
                "gone_run_id": None,
                "state": each.sealed,
            }
            for each in writes
        ]
        with writing(self._engine) as connection:
            for block in _blocks(differing):
                _to_history(connection, block, run_id, at)
            _put_states(connection, rows)

    def mark_gone(self, run_id: str, customers: Sequence[bytes]) -> None:
        """Note which customers a run told gone."""
        with writing(self._engine) as connection:
            for block in _blocks(customers):
                connection.execute(
                    update(customer_states)
                    .where(customer_states.c.customer.in_(block))
                    .values(gone_run_id=run_id)
                )

    def history(self, customer: bytes) -> list[KnownCustomer]:
        """Return the states a customer had before the present one, oldest first."""
        query = (
            select(customer_history)
            .where(customer_history.c.customer == customer)
            .order_by(customer_history.c.history_id)
        )
        with reading(self._engine) as connection:
            rows = connection.execute(query).all()
        return [
            KnownCustomer(
                self._open(customer, bytes(row.state)), row.run_id, row.decided_at, row.gone_run_id
            )
            for row in rows
        ]

    def forget(self, customers: Sequence[bytes]) -> None:
        """Erase all that these tables hold of some customers."""
        with writing(self._engine) as connection:
            for table in (customer_states, customer_history, reviews):
                for block in _blocks(customers):
                    connection.execute(delete(table).where(table.c.customer.in_(block)))

    def purge_history(self, before: int) -> int:
        """Remove states that were replaced before an instant; return how many."""
        with writing(self._engine) as connection:
            done = connection.execute(
                delete(customer_history).where(customer_history.c.replaced_at < before)
            )
            return int(done.rowcount)


def state_context(customer: bytes) -> bytes:
    """Return what a sealed state is bound to."""
    return b"customer state\x1f" + customer


def _blocks(customers: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(customers), _BLOCK):
        yield customers[start : start + _BLOCK]


def _to_history(connection: Connection, block: Sequence[bytes], run_id: str, at: int) -> None:
    """Copy the present states of some customers into the history."""
    kept = customer_states.c
    names = ["customer", "replaced_at", "replaced_by", "run_id", "decided_at", "gone_run_id"]
    old = select(
        kept.customer,
        literal(at),
        literal(run_id),
        kept.run_id,
        kept.decided_at,
        kept.gone_run_id,
        kept.state,
    ).where(kept.customer.in_(block))
    connection.execute(insert(customer_history).from_select([*names, "state"], old))


def _put_states(connection: Connection, rows: Sequence[Mapping[str, object]]) -> None:
    """Insert states; where a customer is known, replace all but when it was first seen."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(customer_states)
    names = ("run_id", "decided_at", "gone_run_id", "state")
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=[customer_states.c.customer],
            set_={name: statement.excluded[name] for name in names},
        ),
        [dict(row) for row in rows],
    )
