"""Records: one sealed table for all kinds, with the same operations for every kind.

The model of a kind declares its fields and its retention (`schemas/records.py`). Erasure, purge,
rotation, verification and backup cover every kind in `KINDS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sqlalchemy import bindparam, delete, func, insert, select, update

from nightscreen.journal.database import Turn, blocks, execute_many
from nightscreen.journal.schema import RECORD, records
from nightscreen.journal.storage import Part
from nightscreen.schemas.records import JournalRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from sqlalchemy import ColumnElement, Connection, Row, Select

    from nightscreen.journal.storage import Storage

R = TypeVar("R", bound=JournalRecord)

_UPDATE = update(records).where(
    records.c.kind == bindparam("of_kind"), records.c.key == bindparam("of_key")
)
"""One statement for any number of records: building it takes longer than executing it."""


class Records(Part, Generic[R]):
    """Reads and writes the records of one kind."""

    def __init__(self, journal: Storage, model: type[R]) -> None:
        super().__init__(journal)
        self._model = model

    # --- writing ---

    def add(self, found: Sequence[R]) -> int:
        """Save records whose key does not exist yet; return how many are new.

        If several processes add the same key, one of them writes it.
        """
        with self._database.writing() as connection:
            known = {row.key for row in self._with_keys(connection, [each.key for each in found])}
            fresh = {each.key: each for each in found if each.key not in known}
            self.insert(connection, fresh.values())
        return len(fresh)

    def replace(self, record: R, before: R, at: int) -> bool:
        """Replace a record by a new version; return False if the earlier version has changed."""
        with self._database.writing() as connection:
            return self.swap(connection, record, before, at)

    def change(self, key: str, changed: Callable[[R], R | None], at: int) -> R | None:
        """Change a record's current version, or delete it; return the new version, or None."""
        with self._database.recording(Turn.DESK) as connection:  # pages do not wait for calls
            before = self._current(connection, key)
            after = None if before is None else changed(before)
            if after is None:
                connection.execute(delete(records).where(self._mine, records.c.key == key))
            elif after != before:
                self.update(connection, [after], at)
        return after

    def merge(self, found: Sequence[R], grown: Callable[[R, R], R], at: int) -> tuple[int, int]:
        """Save records; if a key exists, save `grown` of the stored and the new record.

        Several records with one key are merged in their order.

        Returns:
            How many are new, and how many have changed.
        """
        new = changed = 0
        for block in blocks(found):
            with self._database.writing() as connection:
                rows = self._with_keys(connection, {record.key for record in block})
                there = {row.key: self._read(row) for row in rows}
                after = dict(there)
                for record in block:
                    known = after.get(record.key)
                    after[record.key] = record if known is None else grown(known, record)
                fresh = [each for key, each in after.items() if key not in there]
                other = [each for key, each in after.items() if there.get(key, each) != each]
                self.insert(connection, fresh, at)
                self.update(connection, other, at)
            new, changed = new + len(fresh), changed + len(other)
        return new, changed

    def put(self, changed: Iterable[R], at: int) -> None:
        """Overwrite the records with the same keys."""
        with self._database.writing() as connection:
            self.update(connection, changed, at)

    def drop(self, keys: Collection[str]) -> None:
        """Delete records by their keys."""
        with self._database.writing() as connection:
            for block in blocks(list(keys)):
                connection.execute(delete(records).where(self._mine, records.c.key.in_(block)))

    def drop_before(self, at: int) -> None:
        """Delete records whose retention started before an instant, microseconds."""
        with self._database.writing() as connection:
            connection.execute(delete(records).where(self._mine, records.c.updated_at < at))

    # --- within a transaction ---

    def insert(self, connection: Connection, found: Iterable[R], at: int | None = None) -> None:
        """Save new records, dated at their own instant or at `at`."""
        rows = [self._row(each, each.at if at is None else at) for each in found]
        execute_many(connection, insert(records), rows)

    def swap(self, connection: Connection, record: R, before: R, at: int) -> bool:
        """Replace a record by a new version within a transaction, like `replace`."""
        if self._current(connection, before.key) != before:
            return False
        self.update(connection, [record], at)
        return True

    def _current(self, connection: Connection, key: str) -> R | None:
        return next(iter(self.read(connection, records.c.key == key)), None)

    def update(self, connection: Connection, changed: Iterable[R], at: int) -> None:
        """Overwrite the records with the same keys."""
        rows = [self._row(each, at) for each in changed]
        for row in rows:
            del row["created_at"]
            row |= {"of_kind": row.pop("kind"), "of_key": row.pop("key")}
        execute_many(connection, _UPDATE, rows)

    # --- reading ---

    def find(self, key: str) -> R | None:
        """Return the record of a key, or None."""
        return next(iter(self.select(records.c.key == key)), None)

    def all(self, *, state: str | None = None, batch: str | None = None) -> list[R]:
        """Return the records of the kind, oldest first, if given only of a state or batch."""
        wanted = [records.c.state == state] if state is not None else []
        wanted += [records.c.batch == batch] if batch is not None else []
        return self.select(*wanted)

    def numbered(self, numbers: Collection[int]) -> list[tuple[int, R]]:
        """Return the existing records with some numbers, each with its number."""
        return [(row.record_id, self._read(row)) for row in self._among("record_id", numbers)]

    def of_customers(self, customers: Collection[bytes]) -> list[R]:
        """Return the records of some customers, oldest first for each customer."""
        return list(map(self._read, self._among("customer", customers)))

    def newest(self, customers: Collection[bytes]) -> dict[bytes, R]:
        """Return the newest record of each of some customers that has one."""
        return {each.customer: each for each in self.of_customers(customers)}

    def with_periods(self, customers: Collection[bytes]) -> list[tuple[R, int]]:
        """Return the records of a customer's few pseudonyms, oldest first.

        Each has the instant at which its retention starts.
        """
        rows = self._database.fetch(self._query(records.c.customer.in_(customers)))
        return [(self._read(row), row.updated_at) for row in rows]

    def of_subjects(self, subjects: Collection[bytes]) -> list[R]:
        """Return the records about some identifiers, oldest first for each identifier."""
        return list(map(self._read, self._among("subject", subjects)))

    def keys(self, *, batch: str) -> set[str]:
        """Return the keys of the records of a batch."""
        query = select(records.c.key).where(self._mine, records.c.batch == batch)
        return {row.key for row in self._database.fetch(query)}

    def versions(self) -> dict[int, int]:
        """Return when each record of the kind was last written, by its number."""
        query = select(records.c.record_id, records.c.updated_at).where(self._mine)
        return {row.record_id: row.updated_at for row in self._database.fetch(query)}

    def stamp(self) -> tuple[int, ...]:
        """Return numbers that change whenever a record of the kind is added, deleted or changed."""
        kept = records.c
        newest = func.max(kept.record_id), func.max(kept.updated_at)
        (found,) = self._database.fetch(select(func.count(), *newest).where(self._mine))
        return tuple(found)

    def run_ids(self, *, state: str | None = None) -> list[str]:
        """Return the runs of records, oldest first, if given only of a state; opens no record."""
        kept = records.c
        wanted = [kept.state == state] if state is not None else []
        query = select(kept.run_id).where(self._mine, *wanted).group_by(kept.run_id)
        query = query.order_by(func.min(kept.record_id))
        return [row.run_id for row in self._database.fetch(query)]

    def of_run(self, run_id: str) -> list[R]:
        """Return the records about a run, oldest first."""
        return self.select(records.c.run_id == run_id)

    def number_of_run(self, run_id: str) -> int:
        """Return how many records there are about a run."""
        query = select(func.count()).where(self._mine, records.c.run_id == run_id)
        return int(self._database.fetch_value(query))

    def select(self, *conditions: ColumnElement[bool]) -> list[R]:
        """Return the records of the kind with some conditions, oldest first."""
        return list(map(self._read, self._database.fetch(self._query(*conditions))))

    def read(self, connection: Connection, *conditions: ColumnElement[bool]) -> list[R]:
        """Return the same as `select` within a transaction."""
        return list(map(self._read, connection.execute(self._query(*conditions))))

    def _among(self, column: str, values: Collection[Any]) -> Iterator[Row[Any]]:
        """Yield the rows of the kind whose column has one of some values."""
        for block in blocks(sorted(values)):
            yield from self._database.fetch(self._query(records.c[column].in_(block)))

    def _query(self, *conditions: ColumnElement[bool]) -> Select[Any]:
        oldest = records.c.created_at, records.c.record_id
        return select(records).where(self._mine, *conditions).order_by(*oldest)

    @property
    def _mine(self) -> ColumnElement[bool]:
        return records.c.kind == self._model.kind

    def _with_keys(self, connection: Connection, keys: Collection[str]) -> Iterator[Row[Any]]:
        for block in blocks(sorted(keys)):
            yield from connection.execute(
                select(records).where(self._mine, records.c.key.in_(block))
            )

    def _row(self, record: R, at: int) -> dict[str, Any]:
        """Return a record as a row of the table, last written at an instant."""
        context = RECORD.context(record.kind, record.key)
        return {
            "kind": record.kind,
            "key": record.key,
            "customer": record.customer,
            "subject": record.subject or None,
            "batch": record.batch,
            "run_id": record.run_id,
            "state": record.searched_state,
            "created_at": record.at,
            "updated_at": record.kept_from(at),
            "sealed": self._sealer.seal(record.model_dump_json().encode(), context),
        }

    def _read(self, row: Row[Any]) -> R:
        plain = self._sealer.open(bytes(row.sealed), RECORD.context(row.kind, row.key))
        return self._model.model_validate_json(plain)
