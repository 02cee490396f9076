"""One person taken out of the files of offers and of loans followed.

Those files tell the batch name beside the customer's id, since a run of loans has many. Whose rows
they are is found out in `erasure`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nightscreen.results.changes import CHANGES_FILE
from nightscreen.results.run_files import ID_COLUMN, RunFiles, matching_rows, records
from nightscreen.schemas.offers import LOANS_FILE, OFFERS_CSV, OFFERS_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    Customers = Collection[tuple[str, str]]
    """Batch name and customer id."""

_BATCH, _PSEUDONYM, _REFERENCE = "batch", "customer", "reference"
_TABLES = (OFFERS_FILE, LOANS_FILE)


def loan_rows(folder: Path, customers: Customers) -> int:
    """Return how many rows of a run's offers and loans are about some customers."""
    goes = _pairs(ID_COLUMN, customers)
    files = [path for name in _TABLES if (path := folder / name).exists()]
    return sum(matching_rows(path, [ID_COLUMN, _BATCH], goes) for path in files)


def rewrite_loans(
    folder: RunFiles, customers: Customers, anywhere: Mapping[bytes, Collection[str]]
) -> None:
    """Take customers out of a run's offers, loans and what it told of their loans.

    Args:
        folder: the run's files.
        customers: who goes.
        anywhere: their pseudonyms, with the batch names that are meant.
    """
    for name in _TABLES:
        path = folder.path / name
        if path.exists():
            folder.drop_rows(path, [ID_COLUMN, _BATCH], _pairs(ID_COLUMN, customers))
    changes = folder.path / CHANGES_FILE
    if changes.exists() and _REFERENCE in pq.read_schema(changes).names:
        told = [(batch, each.hex()) for each, batches in anywhere.items() for batch in batches]
        folder.drop_rows(changes, [_PSEUDONYM, _BATCH], _pairs(_PSEUDONYM, told))
    listed = folder.path / OFFERS_CSV
    if listed.exists():
        folder.drop_records(listed, _of_list(listed, customers))


def _pairs(column: str, wanted: Iterable[tuple[str, str]]) -> Callable[[pa.Table], pa.ChunkedArray]:
    """Return what tells of each row whether batch and another column are one of some pairs."""
    by_batch: dict[str, set[str]] = {}
    for batch, value in wanted:
        by_batch.setdefault(batch, set()).add(value)

    def goes(rows: pa.Table) -> pa.ChunkedArray:
        found = pa.chunked_array([pa.array([False] * rows.num_rows, pa.bool_())])
        batches, values = (rows[name].cast(pa.string()) for name in (_BATCH, column))
        for batch, meant in by_batch.items():
            mine = pc.is_in(values, value_set=pa.array(sorted(meant), pa.string()))
            found = pc.or_(found, pc.and_(pc.equal(batches, batch), mine))
        return found.fill_null(fill_value=False)

    return goes


def _of_list(path: Path, customers: Customers) -> Callable[[Sequence[str]], bool]:
    head, _ = next(records(path), ([], ""))
    batch, customer = head.index(_BATCH), head.index(ID_COLUMN)
    wanted = frozenset(customers)
    return lambda cells: (cells[batch], cells[customer]) in wanted
