"""Records, one sealed table for all kinds: contests, notices told, outcomes, policies proposed.

Erasure, purge, rotation, verification and backup know the table, and so every kind. What a kind
holds is a model of `schemas/contests.py` or `schemas/outcomes.py`; what follows is in `steps/`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    case,
    insert,
    or_,
    select,
    update,
)

from nightscreen.schemas.contests import (
    RECORDS,
    ContestState,
    JournalRecord,
    PolicyState,
    RecordKind,
)
from nightscreen.schemas.outcomes import OUTCOMES_BATCH
from nightscreen.storage.journal.engine import reading, writing
from nightscreen.storage.journal.tables import metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection, Engine

    from nightscreen.schemas.settings import Cutoffs
    from nightscreen.storage.journal import Journal
    from nightscreen.storage.sealing import Sealer

R = TypeVar("R", bound=JournalRecord)

_Id = BigInteger().with_variant(Integer(), "sqlite")
_BLOCK = 500

records = Table(
    "records",
    metadata,
    Column("record_id", _Id, primary_key=True, autoincrement=True),
    Column("kind", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("customer", LargeBinary, nullable=False),  # empty where it is about a run
    Column("batch", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("sealed", LargeBinary, nullable=False),  # the whole record, as JSON
    Index("records_by_key", "kind", "key", unique=True),
    Index("records_by_customer", "customer", "kind"),
    Index("records_by_batch", "kind", "batch", "state"),
)


def make_records(connection: Connection) -> None:
    """Make the table where a journal lacks it."""
    metadata.create_all(connection, tables=[records], checkfirst=True)


@dataclass(frozen=True, slots=True)
class Records(Generic[R]):
    """Reads and writes the records of one kind."""

    _model: type[R]
    _engine: Engine = field(repr=False)
    _sealer: Sealer = field(repr=False)

    @classmethod
    def of(cls, journal: Journal, model: type[R]) -> Records[R]:
        """Return the records of one kind in an open journal."""
        return cls(model, journal.engine, journal.sealer)

    def add(self, found: Sequence[R]) -> int:
        """Write records down, but for those whose key is there; return how many are new."""
        with writing(self._engine) as connection:
            known: set[str] = set()
            for start in range(0, len(found), _BLOCK):
                keys = [record.key for record in found[start : start + _BLOCK]]
                query = select(records.c.key).where(self._mine, records.c.key.in_(keys))
                known.update(connection.execute(query).scalars())
            fresh = {each.key: each for each in found if each.key not in known}
            if fresh:
                rows = [self._row(record, record.at) for record in fresh.values()]
                connection.execute(insert(records), rows)
        return len(fresh)

    def replace(self, record: R, before: R, at: int) -> bool:
        """Put a record in the place of its earlier self; False where that is not there any more."""
        with writing(self._engine) as connection:
            mine = (records.c.key == before.key) & self._mine
            row = connection.execute(select(records).where(mine)).first()
            if row is None or self._read(row) != before:
                return False
            values = self._row(record, at)
            del values["created_at"]
            connection.execute(update(records).where(mine).values(values))
        return True

    def merge(self, found: Sequence[R], grown: Callable[[R, R], R], at: int) -> tuple[int, int]:
        """Write records down, those whose key is there as they grow from their earlier selves.

        Args:
            found: the records; of one key the later ones grow from the earlier.
            grown: makes a record of the one that is there and the new one.
            at: when that is, microseconds.

        Returns:
            How many are new, and how many have changed.
        """
        new = changed = 0
        for start in range(0, len(found), _BLOCK):
            block = found[start : start + _BLOCK]
            with writing(self._engine) as connection:
                keys = {record.key for record in block}
                query = select(records).where(self._mine, records.c.key.in_(keys))
                there = {row.key: self._read(row) for row in connection.execute(query)}
                after = dict(there)
                for record in block:
                    known = after.get(record.key)
                    after[record.key] = record if known is None else grown(known, record)
                fresh = [each for key, each in after.items() if key not in there]
                other = [each for key, each in after.items() if there.get(key, each) != each]
                if fresh:
                    connection.execute(insert(records), [self._row(each, at) for each in fresh])
                for each in other:
                    values = self._row(each, at)
                    del values["created_at"]
                    mine = (records.c.key == each.key) & self._mine
                    connection.execute(update(records).where(mine).values(values))
            new, changed = new + len(fresh), changed + len(other)
        return new, changed

    def find(self, key: str) -> R | None:
        """Return the record of a key, or None."""
        return next(iter(self._select(records.c.key == key)), None)

    def all(self, *, state: str | None = None, batch: str | None = None) -> list[R]:
        """Return the records of the kind, oldest first, of one state or batch where it is named."""
        wanted = [records.c.state == state] if state is not None else []
        wanted += [records.c.batch == batch] if batch is not None else []
        return self._select(*wanted)

    def of_customers(self, customers: Collection[bytes]) -> list[R]:
        """Return the records of some customers, oldest first."""
        return self._select(records.c.customer.in_(sorted(customers)))

    def of_run(self, run_id: str) -> list[R]:
        """Return the records about a run, oldest first."""
        return self._select(records.c.run_id == run_id)

    @property
    def _mine(self) -> ColumnElement[bool]:
        return records.c.kind == self._model.kind.value

    def _select(self, *conditions: ColumnElement[bool]) -> list[R]:
        query = select(records).where(self._mine, *conditions).order_by(records.c.record_id)
        with reading(self._engine) as connection:
            return [self._read(row) for row in connection.execute(query)]

    def _row(self, record: R, at: int) -> dict[str, Any]:
        text = record.model_dump_json().encode()
        return {
            "kind": record.kind.value,
            "key": record.key,
            "customer": record.customer,
            "batch": record.batch,
            "run_id": record.run_id,
            "state": record.state,
            "created_at": record.at,
            "updated_at": at,
            "sealed": self._sealer.seal(text, record_context(record.kind.value, record.key)),
        }

    def _read(self, row: Any) -> R:  # noqa: ANN401 - a row of the table
        text = self._sealer.open(bytes(row.sealed), record_context(row.kind, row.key))
        return self._model.model_validate_json(text)


def record_context(kind: str, key: str) -> bytes:
    """Return what a sealed record is bound to."""
    return f"record\x1f{kind}\x1f{key}".encode()


def records_of_person(
    customers: Collection[bytes], anywhere: Mapping[bytes, Collection[str]]
) -> tuple[Table, ColumnElement[bool]]:
    """Return which rows are a person's.

    Args:
        customers: pseudonyms of the customer in each batch name.
        anywhere: of the customer whatever the batch name, each with the batch names that are meant.
    """
    outcome = records.c.kind == RecordKind.OUTCOME.value
    theirs = [
        outcome & (records.c.customer == customer) & records.c.batch.in_([*batches, OUTCOMES_BATCH])
        for customer, batches in anywhere.items()
    ]
    return records, or_(records.c.customer.in_(customers), *theirs)


def records_before(cutoffs: Cutoffs) -> tuple[Table, ColumnElement[bool]]:
    """Return which rows were last written before the instant of their ground.

    An open contest stays, and so does a policy that waits for approval, or has it: a run decides by
    it, however long ago that was.
    """
    contest = records.c.kind == RecordKind.CONTEST.value
    waiting = contest & (records.c.state == ContestState.OPEN.value)
    policy = records.c.kind == RecordKind.POLICY.value
    waiting |= policy & (records.c.state != PolicyState.REFUSED.value)
    grounds = {model.kind.value: getattr(cutoffs, model.ground.value) for model in RECORDS}
    before = case(grounds, value=records.c.kind, else_=cutoffs.decisions)
    return records, (records.c.updated_at < before) & ~waiting
