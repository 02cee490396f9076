"""Pulled data in the journal: every version of every record, sealed, and each pull's end.

One database transaction saves what a pull returned for one customer, so that a crash leaves all of
it or nothing. `operations/transactions/comparison.py` compares with the last pull.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import func, insert, select, update

from nightscreen.journal.engine import reading, writing
from nightscreen.journal.schema import (
    TRANSACTION,
    transaction_pulls,
    transaction_records,
)
from nightscreen.schemas.pulls import (
    KEPT,
    Known,
    Pulled,
    PulledKind,
    PullOutcome,
    TransactionChange,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sqlalchemy import ColumnElement, Connection, Row, Select

    from nightscreen.journal import Journal
    from nightscreen.schemas.pulls import Answered, Difference

_BLOCK = 2000
_NAMES_BLOCK = 500
_records, _pulls = transaction_records.c, transaction_pulls.c


class Version(NamedTuple):
    """One version of a record, opened; instants in microseconds."""

    customer: bytes
    key: bytes
    raw: bytes
    problem: str | None
    first_seen_at: int
    run_id: str
    told_as: str
    changed: list[str]
    ended_at: int | None
    ended_as: str | None
    kind: PulledKind


@dataclass(frozen=True, slots=True)
class Comparing:
    """Compares a list with the stored versions, inside the transaction that stores it.

    Attributes:
        kind: what the list holds.
        summary: what is noted of the answer itself.
        difference: given what is known, and whether the pull before held removals back.
        changed: names of the fields in which two versions differ.
    """

    kind: PulledKind
    summary: dict[str, Any]
    difference: Callable[[list[Known], bool], Difference]
    changed: Callable[[bytes, bytes], list[str]]


@dataclass(frozen=True, slots=True)
class Transactions:
    """Keeps records and pulls in an open journal."""

    _journal: Journal = field(repr=False)

    @classmethod
    def of(cls, journal: Journal) -> Transactions:
        """Return the transactions of an open journal."""
        return cls(journal)

    # --- pulls ---

    def begin(
        self,
        run_id: str,
        due: Iterable[tuple[bytes, str]],
        kind: PulledKind = PulledKind.TRANSACTION,
    ) -> None:
        """Write down which customers, each with a grant, a new run is to pull."""
        rows = [
            {
                "run_id": run_id,
                "customer": customer,
                "grant_id": grant_id,
                "outcome": PullOutcome.DUE.value,
                "standing": 0,
                "summary": "{}",
                "kind": kind.value,
            }
            for customer, grant_id in due
        ]
        with writing(self._journal.engine) as connection:
            if rows:
                connection.execute(insert(transaction_pulls), rows)

    def pulls(self, run_id: str) -> list[Pulled]:
        """Return the state of each customer of a run."""
        query = select(transaction_pulls).where(_pulls.run_id == run_id).order_by(_pulls.customer)
        with reading(self._journal.engine) as connection:
            return [_pulled(row) for row in connection.execute(query).all()]

    def settle(self, pulled: Pulled) -> None:
        """Save a customer's state, if there are no records."""
        with writing(self._journal.engine) as connection:
            self._settle(connection, pulled)

    def _settle(self, connection: Connection, pulled: Pulled) -> None:
        connection.execute(
            update(transaction_pulls)
            .where(_pulls.run_id == pulled.run_id, _pulls.customer == pulled.customer)
            .values(
                grant_id=pulled.grant_id,
                outcome=pulled.outcome.value,
                standing=pulled.standing,
                answered_at=pulled.answered_at,
                settled_at=self._journal.clock(),
                summary=json.dumps(pulled.summary, sort_keys=True),
            )
        )

    # --- records ---

    def keep(self, pulled: Pulled, lists: Sequence[Comparing]) -> Pulled:
        """Store lists beside what is known; return the customer's new state.

        The first is of the pull's own kind and decides the outcome. A later answer that another
        run has kept meanwhile stays: then nothing is kept.
        """
        with writing(self._journal.engine) as connection:
            last = self._last(connection, pulled)
            if last is not None and (last.answered_at or 0) > (pulled.answered_at or 0):
                done = replace(pulled, outcome=PullOutcome.SUPERSEDED)
                self._settle(connection, done)
                return done
            confirms = last is not None and last.outcome is PullOutcome.SUSPICIOUS_SHORT
            summaries: dict[PulledKind, dict[str, Any]] = {}
            for answered_list in lists:
                known = _known(connection, pulled.customer, answered_list.kind)
                difference = answered_list.difference(known, confirms)
                self._write(connection, pulled, answered_list, difference)
                summaries[answered_list.kind] = {**answered_list.summary, **_counts(difference)}
            own = summaries.pop(pulled.kind)
            beside = {**pulled.summary.get("beside", {}), **summaries}
            summary = {**own, "beside": beside} if beside else own
            outcome = PullOutcome.SUSPICIOUS_SHORT if own["held"] else PullOutcome.PULLED
            done = replace(pulled, outcome=outcome, summary=summary)
            self._settle(connection, done)
            return done

    def _last(self, connection: Connection, pulled: Pulled) -> Pulled | None:
        """Return the last pull of the customer by another run that stored its records."""
        query = (
            select(transaction_pulls)
            .where(
                _pulls.customer == pulled.customer,
                _pulls.kind == pulled.kind.value,
                _pulls.run_id != pulled.run_id,
                _pulls.outcome.in_([outcome.value for outcome in KEPT]),
            )
            .order_by(_pulls.answered_at.desc())
            .limit(1)
        )
        row = connection.execute(query).first()
        return None if row is None else _pulled(row)

    def _write(
        self,
        connection: Connection,
        pulled: Pulled,
        comparing: Comparing,
        difference: Difference,
    ) -> None:
        now, kind = self._journal.clock(), comparing.kind
        added = TransactionChange.ADDED
        new = [self._row(pulled, kind, answered, added, now) for answered in difference.added]
        old = self._opened(connection, [known.record_id for known, _ in difference.modified])
        for known, answered in difference.modified:
            names = comparing.changed(old[known.record_id], answered.raw)
            row = self._row(pulled, kind, answered, TransactionChange.MODIFIED, now)
            new.append({**row, "changed": json.dumps(names)})
        ended = {
            TransactionChange.MODIFIED: [known.record_id for known, _ in difference.modified],
            TransactionChange.REMOVED: [known.record_id for known in difference.removed],
        }
        for how, ids in ended.items():
            for block in _blocks(ids):
                values = {"ended_at": now, "ended_as": how.value, "ended_by": pulled.run_id}
                change = update(transaction_records).where(_records.record_id.in_(block))
                connection.execute(change.values(values))
        for start in range(0, len(new), _BLOCK):
            connection.execute(insert(transaction_records), new[start : start + _BLOCK])

    def _row(
        self, pulled: Pulled, kind: PulledKind, answered: Answered, how: TransactionChange, now: int
    ) -> dict[str, Any]:
        context = TRANSACTION.context(pulled.customer, answered.key)
        return {
            "customer": pulled.customer,
            "record_key": answered.key,
            "content": answered.content,
            "problem": answered.problem,
            "occurred_at": answered.occurred_at,
            "first_seen_at": now,
            "run_id": pulled.run_id,
            "told_as": how.value,
            "changed": None,
            "kind": kind.value,
            "sealed": self._journal.sealer.seal(answered.raw, context),
        }

    def _opened(self, connection: Connection, ids: Sequence[int]) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for block in _blocks(ids):
            query = select(
                _records.record_id, _records.customer, _records.record_key, _records.sealed
            ).where(_records.record_id.in_(block))
            for id_, customer, key, sealed in connection.execute(query).all():
                context = TRANSACTION.context(bytes(customer), bytes(key))
                found[id_] = self._journal.sealer.open(bytes(sealed), context)
        return found

    def brought(self, run_id: str, kind: PulledKind | None = None) -> Iterator[list[Version]]:
        """Yield in blocks the versions that a run stored, of all kinds or of one."""
        which = _records.run_id == run_id
        yield from self._blocks(which if kind is None else which & (_records.kind == kind.value))

    def removed(self, run_id: str) -> Iterator[list[Version]]:
        """Yield in blocks the records that a run found to be gone."""
        gone = (_records.ended_by == run_id) & (
            _records.ended_as == TransactionChange.REMOVED.value
        )
        yield from self._blocks(gone)

    def of_customer(self, customer: bytes) -> Iterator[list[Version]]:
        """Yield in blocks every version that is kept of a customer."""
        yield from self._blocks(_records.customer == customer)

    def current(
        self, customer: bytes, kind: PulledKind = PulledKind.TRANSACTION
    ) -> Iterator[Version]:
        """Yield a customer's present records, in the order in which they were stored."""
        stands = (_records.customer == customer) & _records.ended_at.is_(None)
        for block in self._blocks(stands & (_records.kind == kind.value)):
            yield from block

    def answered_at(self, customer: bytes, kind: PulledKind = PulledKind.TRANSACTION) -> int | None:
        """Return when the newest list of a customer that was kept was answered."""
        query = select(func.max(_pulls.answered_at)).where(
            _pulls.customer == customer,
            _pulls.kind == kind.value,
            _pulls.outcome.in_([outcome.value for outcome in KEPT]),
        )
        with reading(self._journal.engine) as connection:
            return connection.execute(query).scalar()

    def pulls_of(self, customer: bytes) -> list[Pulled]:
        """Return how every pull of a customer went, oldest first."""
        query = select(transaction_pulls).where(_pulls.customer == customer)
        with reading(self._journal.engine) as connection:
            rows = connection.execute(query.order_by(_pulls.settled_at)).all()
        return [_pulled(row) for row in rows]

    def _blocks(self, which: ColumnElement[bool]) -> Iterator[list[Version]]:
        last = 0
        while True:
            query: Select[Any] = (
                select(transaction_records)
                .where(which, _records.record_id > last)
                .order_by(_records.record_id)
                .limit(_BLOCK)
            )
            with reading(self._journal.engine) as connection:
                rows = connection.execute(query).all()
            if not rows:
                return
            yield [self._version(row) for row in rows]
            last = rows[-1].record_id

    def _version(self, row: Row[Any]) -> Version:
        customer, key = bytes(row.customer), bytes(row.record_key)
        return Version(
            customer=customer,
            key=key,
            raw=self._journal.sealer.open(bytes(row.sealed), TRANSACTION.context(customer, key)),
            problem=row.problem,
            first_seen_at=row.first_seen_at,
            run_id=row.run_id,
            told_as=row.told_as,
            changed=json.loads(row.changed) if row.changed else [],
            ended_at=row.ended_at,
            ended_as=row.ended_as,
            kind=PulledKind(row.kind),
        )


def _known(connection: Connection, customer: bytes, kind: PulledKind) -> list[Known]:
    query = select(
        _records.record_id, _records.record_key, _records.content, _records.occurred_at
    ).where(_records.customer == customer, _records.ended_at.is_(None), _records.kind == kind.value)
    rows = connection.execute(query).all()
    return [Known(id_, bytes(key), bytes(content), at) for id_, key, content, at in rows]


def _counts(difference: Difference) -> dict[str, int]:
    return {
        "added": len(difference.added),
        "modified": len(difference.modified),
        "removed": len(difference.removed),
        "held": difference.held,
        "out_of_reach": difference.out_of_reach,
    }


def _pulled(row: Row[Any]) -> Pulled:
    return Pulled(
        run_id=row.run_id,
        customer=bytes(row.customer),
        grant_id=row.grant_id,
        kind=PulledKind(row.kind),
        outcome=PullOutcome(row.outcome),
        standing=row.standing,
        answered_at=row.answered_at,
        summary=json.loads(row.summary),
    )


def _blocks(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(ids), _NAMES_BLOCK):
        yield ids[start : start + _NAMES_BLOCK]
