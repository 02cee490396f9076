"""Stores of earlier versions that are kinds of records now: how their rows become records.

A row is opened as the version that wrote it sealed it, and sealed anew as a record. The old table
goes with the step. Which version a step leads to is in `migrations`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import MetaData, Table, insert, inspect, select

from nightscreen.schemas.contests import Review
from nightscreen.schemas.errors import JournalError
from nightscreen.storage.journal.records import make_records, record_row, records

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy import Connection

    from nightscreen.schemas.records import JournalRecord
    from nightscreen.storage.sealing import Sealer

_BLOCK = 500


class Store(NamedTuple):
    """A table of an earlier version.

    Attributes:
        name: the table's.
        bound_to: what its sealed column is bound to, before the customer.
        record: makes the record of a row and of what was sealed in it.
        written: columns that say when a row was last written; the first that is filled counts.
    """

    name: str
    bound_to: bytes
    record: Callable[[Mapping[str, Any], Any], JournalRecord]
    written: tuple[str, ...]

    def move(self, connection: Connection, sealer: Sealer | None) -> None:
        """Make records of all rows and drop the table; nothing is done where there is none."""
        make_records(connection)
        if not inspect(connection).has_table(self.name):
            return
        table = Table(self.name, MetaData(), autoload_with=connection)
        query = select(table).order_by(*table.primary_key.columns)
        result = connection.execute(query, execution_options={"yield_per": _BLOCK})
        for rows in result.mappings().partitions():
            if sealer is None:
                raise JournalError("the journal's data key is needed to bring it up")
            connection.execute(insert(records), [self._moved(dict(row), sealer) for row in rows])
        table.drop(connection)

    def _moved(self, row: dict[str, Any], sealer: Sealer) -> dict[str, Any]:
        context = self.bound_to + bytes(row["customer"])
        held = json.loads(sealer.open(bytes(row.pop("sealed")), context))
        at = next(row[name] for name in self.written if row[name] is not None)
        return record_row(self.record(row, held), sealer, at)


def _review(row: Mapping[str, Any], held: list[str]) -> Review:
    reviewer, note = held
    names = ("customer", "batch", "run_id", "listed", "decision", "reviewed_at", "until")
    return Review(
        key=str(row["review_id"]),
        at=row["imported_at"],
        reviewer=reviewer,
        note=note,
        evidence=bytes(row["evidence"]),
        **{name: row[name] for name in names},
    )


REVIEWS = Store("reviews", b"review\x1f", _review, ("imported_at",))
