"""Shadow: what a second policy would have decided of the same rows, beside the one in force."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nightscreen.files.outputs import SHADOW_FILE
from nightscreen.files.quarantine import escape_formula
from nightscreen.results.customer_rows import customer_batches
from nightscreen.schemas.enriched import SHADOW_FIELDS
from nightscreen.schemas.rows import NAIRA

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from nightscreen.files.run_folder import RunFolder

SHADOW_COLUMNS = (
    "customer_id",
    "exposure",
    "decision",
    "shadow_decision",
    "reasons",
    "shadow_reasons",
)
_BLOCK_ROWS = 8192


def write_shadow(folder: RunFolder, parts: Sequence[Path]) -> None:
    """Write `shadow.csv`: each customer whom the second policy decides otherwise, in input order.

    The list has those alone whom the policy in force puts there; whom the second one alone would
    decline stands nowhere else that people read.

    Raises:
        OutputError: the folder cannot be written.
    """
    folder.rows[SHADOW_FILE] = 0
    with (
        folder.file(SHADOW_FILE) as partial,
        partial.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(SHADOW_COLUMNS)
        for customers in _moved(parts):
            for row in customers.to_pylist():
                cells = [row.get(name) for name in SHADOW_COLUMNS]
                words = ["; ".join(each) if isinstance(each, list) else each for each in cells]
                writer.writerow(escape_formula("" if each is None else str(each)) for each in words)
            folder.rows[SHADOW_FILE] += customers.num_rows


def _moved(parts: Sequence[Path]) -> Iterator[pa.Table]:
    for part in parts:
        with pq.ParquetFile(part) as file:
            for rows in customer_batches(file, SHADOW_COLUMNS, _BLOCK_ROWS):
                words = [rows[name].cast(pa.string()) for name in ("decision", "shadow_decision")]
                yield rows.filter(pc.not_equal(*words))


def with_shadow(rows: pa.Table, other: pa.Table) -> pa.Table:
    """Return decided rows with the decision and the reasons of the same rows decided otherwise."""
    taken: Mapping[str, str] = {"shadow_decision": "decision", "shadow_reasons": "reasons"}
    for name, kind in SHADOW_FIELDS:
        rows = rows.append_column(pa.field(name, kind), other[taken[name]].cast(kind))
    return rows


def exposure_of(rows: pa.Table) -> pa.ChunkedArray:
    """Return the naira at risk of each row, null where unknown."""
    if "exposure" in rows.column_names:
        return rows["exposure"]
    return pa.chunked_array([pa.nulls(rows.num_rows, NAIRA)])
