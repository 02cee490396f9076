"""The enriched row of one customer in a run's files."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nightscreen.files.outputs import enriched_parts
from nightscreen.schemas.rows import CUSTOMER_EXPOSURE

if TYPE_CHECKING:
    from nightscreen.journal.runs import RunRecord


def row_table(run: RunRecord, customer_id: str) -> pa.Table | None:
    """Return a customer's enriched row of a run as a table; None where its files are gone."""
    parts = enriched_parts(Path(run.folder))
    if not parts:
        return None
    return _row_of(tuple((part, part.stat().st_mtime_ns) for part in parts), customer_id)


@lru_cache(maxsize=4)
def _row_of(parts: tuple[tuple[Path, int], ...], customer_id: str) -> pa.Table:
    """Return the first row of a customer, or none; whoever explains a customer asks several times.

    Ids are looked through alone: the other columns, some hundred and fifty, are read of the one
    group of rows that has the customer.
    """
    for part, _ in parts:
        with pq.ParquetFile(part) as file:
            for group in range(file.num_row_groups):
                ids = file.read_row_group(group, columns=["customer_id"])["customer_id"]
                place = pc.index(ids, pa.scalar(customer_id, ids.type)).as_py()
                if place >= 0:
                    return _with_whole_exposure(file.read_row_group(group).slice(place, 1))
            empty = file.schema_arrow.empty_table()
    return empty


def _with_whole_exposure(table: pa.Table) -> pa.Table:
    if CUSTOMER_EXPOSURE not in table.column_names:
        return table
    place = table.column_names.index("exposure")
    return table.set_column(place, "exposure", table[CUSTOMER_EXPOSURE])


def find_row(run: RunRecord, customer_id: str) -> dict[str, Any] | None:
    """Return a customer's enriched row of a run; None where it has none or its files are gone."""
    table = row_table(run, customer_id)
    rows: list[dict[str, Any]] = [] if table is None else table.to_pylist()
    return rows[0] if rows else None
