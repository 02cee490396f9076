"""Customer rows: enriched rows on disk read as customers, each once.

Where the rows of one customer id were merged, `enriched` has a row for each of the input's;
whatever counts customers reads the first of each, with the customer's whole exposure.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nightscreen.results.enriched import input_columns
from nightscreen.schemas.enriched import COST
from nightscreen.schemas.rows import CUSTOMER, CUSTOMER_EXPOSURE, CUSTOMER_ROW

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from nightscreen.schemas.rows import SourceColumn

_KEPT_CHUNKS = 4


def columns_of_parts(parts: Sequence[Path]) -> list[str]:
    """Return the columns of enriched parts, which all have the same; of no parts none."""
    return list(pq.read_schema(parts[0]).names) if parts else []


def read_customers(
    parts: Iterable[Path], columns: Collection[str], size: int, beside: pa.Table | None = None
) -> Iterator[pa.Table]:
    """Yield a run's customers in order, some rows at a time.

    Args:
        parts: the run's enriched parts, in order.
        columns: what is read, as far as the parts have it.
        size: most rows of a table.
        beside: has a row for each customer, in the same order; its columns are added.
    """
    start = 0
    for part in parts:
        with pq.ParquetFile(part) as file:
            for rows in _customers(file, columns, size):
                found = rows
                if beside is not None:
                    for name in beside.column_names:
                        found = found.append_column(name, beside[name].slice(start, rows.num_rows))
                start += rows.num_rows
                yield found


def _customers(file: pq.ParquetFile, columns: Collection[str], size: int) -> Iterator[pa.Table]:
    """Yield a part's customers in order, with those of the columns that it has."""
    there = file.schema_arrow.names
    wanted = [name for name in there if name in columns]
    if CUSTOMER_ROW not in there:
        for batch in file.iter_batches(size, columns=wanted):
            yield pa.Table.from_batches([batch])
        return
    exposed = "exposure" in wanted and CUSTOMER_EXPOSURE in there
    read = {*wanted, CUSTOMER_ROW, *([CUSTOMER_EXPOSURE] if exposed else [])}
    for batch in file.iter_batches(size, columns=[name for name in there if name in read]):
        rows = pa.Table.from_batches([batch])
        rows = rows.filter(pc.equal(rows[CUSTOMER_ROW], 1))
        if exposed:
            place = rows.column_names.index("exposure")
            rows = rows.set_column(place, "exposure", rows[CUSTOMER_EXPOSURE])
        yield rows.select(wanted).combine_chunks()


class Expansion:
    """Gives each input row what was found of its customer, of whom a chunk is read at a time."""

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
        self._kept: dict[int, pa.Table] = {}

    def expand(self, rows: pa.Table) -> pa.Table:
        """Return enriched rows for some rows of the input."""
        numbers = rows[CUSTOMER].to_numpy()
        found = self._of_customers(numbers)
        place = pa.array(self._numbered(numbers))
        columns = {name: found[name] for name in found.column_names}
        if CUSTOMER_EXPOSURE in self._schema.names:
            columns[CUSTOMER_EXPOSURE] = found["exposure"]
        columns |= {name: rows[source] for name, source in self._input}
        nothing = pa.scalar(Decimal(0), COST)
        columns["cost"] = pc.if_else(pc.equal(place, 1), found["cost"], nothing)
        columns[CUSTOMER_ROW] = place
        return pa.table([columns[name] for name in self._schema.names], schema=self._schema)

    def _numbered(self, numbers: NDArray[np.int64]) -> list[int]:
        """Return which row of its customer each row is, from 1; count them."""
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
        if number not in self._kept:
            while len(self._kept) >= _KEPT_CHUNKS:
                self._kept.pop(next(iter(self._kept)))
            self._kept[number] = self._chunk(number)
        return self._kept[number]
