"""The enriched table: its columns, its rows read as customers, and the row of one customer.

Its columns are the input's, those of each check, and the decision; `assemble` fills them. If rows
of one customer id were merged, the table still has a row for each row of the input. Code that
counts customers reads the first row of each, with the customer's total exposure.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nightscreen.checks.arrow_types import check_schema
from nightscreen.checks.registry import CHECKS
from nightscreen.files.outputs import enriched_parts
from nightscreen.schemas.enriched import (
    BVN_FIELDS,
    CONSENT_UNREADABLE,
    COST,
    DECISION_FIELDS,
    SIGNALS,
    TX_FIELDS,
)
from nightscreen.schemas.rows import (
    CUSTOMER,
    CUSTOMER_EXPOSURE,
    CUSTOMER_ROW,
    EXTRA_PREFIX,
    NAIRA,
    SourceColumn,
    row_schema,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from nightscreen.journal.runs import RunRecord

_CACHED_CHUNKS = 4  # a customer's rows may be far apart in the file and need an older chunk again


def input_columns(columns: Sequence[SourceColumn]) -> list[tuple[str, str]]:
    """Return output name and row column of each input column, in input order, each once.

    If a file has bank names and no codes, a column `bank_code` is added: the codes that the lookups
    were made with.
    """
    sources: dict[str, str] = {}
    known = {column.known for column in columns}
    for column in columns:
        source = column.known or f"{EXTRA_PREFIX}{column.output}"
        sources.setdefault(column.known or column.output, source)
        if column.known == "bank_name" and "bank_code" not in known:
            sources.setdefault("bank_code", "bank_code")
    return list(sources.items())


def extra_names(columns: Sequence[SourceColumn]) -> list[str]:
    """Return the output names of the columns that are only carried through."""
    return [column.output for column in columns if column.known is None]


def enriched_schema(columns: Sequence[SourceColumn], *, merged: bool = False) -> pa.Schema:
    """Return the schema of `enriched/part-*.parquet` for an input of these columns.

    Args:
        columns: the input's.
        merged: rows of one customer id are one customer: `customer_row` numbers them, and
            `customer_exposure` is the sum of its open loans, where the input has exposures.
    """
    rows = row_schema(extra_names(columns))
    fields = [pa.field(name, rows.field(source).type) for name, source in input_columns(columns)]
    for check in CHECKS:
        fields += check_schema(check)
    fields += [pa.field(name, kind) for name, kind in BVN_FIELDS]
    fields += [pa.field(name, kind) for name, kind in TX_FIELDS]
    fields += [pa.field(name, pa.int64()) for name in SIGNALS]
    fields.append(pa.field(CONSENT_UNREADABLE, pa.bool_()))
    fields += [pa.field(name, kind) for name, kind in DECISION_FIELDS]
    if merged:
        fields.append(pa.field(CUSTOMER_ROW, pa.int64()))
        if any(name == "exposure" for name, _ in input_columns(columns)):
            fields.append(pa.field(CUSTOMER_EXPOSURE, NAIRA))
    return pa.schema(fields)


def columns_of_parts(parts: Sequence[Path]) -> list[str]:
    """Return the columns of enriched parts, which all have the same; empty without parts."""
    return list(pq.read_schema(parts[0]).names) if parts else []


def read_customers(
    parts: Iterable[Path], columns: Collection[str], size: int, added: pa.Table | None = None
) -> Iterator[pa.Table]:
    """Yield a run's customers in order, some rows at a time.

    Args:
        parts: the run's enriched parts, in order.
        columns: the columns to read, if the parts have them.
        size: the most rows of a table.
        added: a table with a row for each customer, in the same order; its columns are added.
    """
    start = 0
    for part in parts:
        with pq.ParquetFile(part) as file:
            for rows in _customers(file, columns, size):
                table = rows
                if added is not None:
                    for name in added.column_names:
                        table = table.append_column(name, added[name].slice(start, rows.num_rows))
                start += rows.num_rows
                yield table


def _customers(file: pq.ParquetFile, columns: Collection[str], size: int) -> Iterator[pa.Table]:
    """Yield a part's customers in order, with the requested columns that it has."""
    names = file.schema_arrow.names
    wanted = [name for name in names if name in columns]
    if CUSTOMER_ROW not in names:
        for batch in file.iter_batches(size, columns=wanted):
            yield pa.Table.from_batches([batch])
        return
    has_total = "exposure" in wanted and CUSTOMER_EXPOSURE in names
    read = {*wanted, CUSTOMER_ROW, *([CUSTOMER_EXPOSURE] if has_total else [])}
    for batch in file.iter_batches(size, columns=[name for name in names if name in read]):
        rows = pa.Table.from_batches([batch])
        rows = rows.filter(pc.equal(rows[CUSTOMER_ROW], 1))
        yield _with_total_exposure(rows).select(wanted).combine_chunks()


class Expansion:
    """Expands merged customers: each input row gets the enriched values of its customer."""

    def __init__(
        self,
        columns: Sequence[SourceColumn],
        schema: pa.Schema,
        chunk_rows: int,
        chunk: Callable[[int], pa.Table],
    ) -> None:
        self._input = input_columns(columns)
        self._schema = schema
        self._rows_before = Counter[int]()
        self._chunk_rows = chunk_rows
        self._chunk = chunk
        self._cache: dict[int, pa.Table] = {}

    def expand(self, rows: pa.Table) -> pa.Table:
        """Return enriched rows for some rows of the input."""
        numbers = rows[CUSTOMER].to_numpy()
        customers = self._of_customers(numbers)
        place = pa.array(self._numbered(numbers))
        columns = {name: customers[name] for name in customers.column_names}
        if CUSTOMER_EXPOSURE in self._schema.names:
            columns[CUSTOMER_EXPOSURE] = customers["exposure"]
        columns |= {name: rows[source] for name, source in self._input}
        nothing = pa.scalar(Decimal(0), COST)
        columns["cost"] = pc.if_else(pc.equal(place, 1), customers["cost"], nothing)
        columns[CUSTOMER_ROW] = place
        return pa.table([columns[name] for name in self._schema.names], schema=self._schema)

    def _numbered(self, numbers: NDArray[np.int64]) -> list[int]:
        """Return each row's number among its customer's rows, from 1; remember the counts."""
        places = []
        for number in numbers.tolist():
            self._rows_before[number] += 1
            places.append(self._rows_before[number])
        return places

    def _of_customers(self, numbers: NDArray[np.int64]) -> pa.Table:
        """Return the enriched customer of each row."""
        chunks = numbers // self._chunk_rows
        tables, places = [], []
        for number in np.unique(chunks).tolist():
            at = np.flatnonzero(chunks == number)
            tables.append(self._read(number).take(pa.array(numbers[at] % self._chunk_rows)))
            places.append(at)
        order = np.argsort(np.concatenate(places), kind="stable")
        return pa.concat_tables(tables).unify_dictionaries().take(pa.array(order)).combine_chunks()

    def _read(self, number: int) -> pa.Table:
        if number not in self._cache:
            while len(self._cache) >= _CACHED_CHUNKS:
                self._cache.pop(next(iter(self._cache)))
            self._cache[number] = self._chunk(number)
        return self._cache[number]


def row_table(run: RunRecord, customer_id: str) -> pa.Table | None:
    """Return a customer's enriched row of a run as a table; None if its files are gone."""
    parts = enriched_parts(Path(run.folder))
    if not parts:
        return None
    return _row_of(tuple((part, part.stat().st_mtime_ns) for part in parts), customer_id)


@lru_cache(maxsize=4)
def _row_of(parts: tuple[tuple[Path, int], ...], customer_id: str) -> pa.Table:
    """Return a customer's first row, or an empty table; one page asks for it several times.

    Only the ids are searched: the other columns, some hundred and fifty, are read for the one row
    group that has the customer.
    """
    for part, _ in parts:
        with pq.ParquetFile(part) as file:
            for group in range(file.num_row_groups):
                ids = file.read_row_group(group, columns=["customer_id"])["customer_id"]
                place = pc.index(ids, pa.scalar(customer_id, ids.type)).as_py()
                if place >= 0:
                    return _with_total_exposure(file.read_row_group(group).slice(place, 1))
            empty = file.schema_arrow.empty_table()
    return empty


def _with_total_exposure(table: pa.Table) -> pa.Table:
    if not {"exposure", CUSTOMER_EXPOSURE} <= set(table.column_names):
        return table
    place = table.column_names.index("exposure")
    return table.set_column(place, "exposure", table[CUSTOMER_EXPOSURE])


def find_row(run: RunRecord, customer_id: str) -> dict[str, Any] | None:
    """Return a customer's enriched row of a run; None if there is none or its files are gone."""
    table = row_table(run, customer_id)
    rows: list[dict[str, Any]] = [] if table is None else table.to_pylist()
    return rows[0] if rows else None
