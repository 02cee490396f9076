"""Decisions by reason: customers and naira at risk behind each reason's code.

Counted from the enriched rows part by part; a customer with several reasons counts under each.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nightscreen.report.format import DECISIONS, count, naira, sentence
from nightscreen.results.customer_rows import customer_batches

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

NO_REASON = "without a reason: evidence is missing, or no rule applies"

_READ = frozenset({"decision", "reasons", "exposure"})
_BLOCK_ROWS = 65_536


def reason_rows(parts: Iterable[Path]) -> list[dict[str, str]]:
    """Return decisions by reason as rows of a table, the most frequent of each decision first.

    Where no customer of a reason has a known exposure, it is not known, which is not zero.
    """
    rows: Counter[tuple[str, str]] = Counter()
    kobo: Counter[tuple[str, str]] = Counter()
    for part in parts:
        with pq.ParquetFile(part) as file:
            for customers in customer_batches(file, _READ, _BLOCK_ROWS):
                _take(customers, rows, kobo)
    order = {word: index for index, word in enumerate(DECISIONS)}
    found = sorted(rows, key=lambda key: (order.get(key[0], len(order)), -rows[key], key[1]))
    return [
        {
            "Decision": DECISIONS.get(key[0], sentence(key[0])),
            "Reason": sentence(key[1].casefold()),
            "Customers": count(rows[key]),
            "Exposure": naira(f"{kobo[key] / 100:.2f}") if key in kobo else "not known",
        }
        for key in found
    ]


def _take(table: pa.Table, rows: Counter[tuple[str, str]], kobo: Counter[tuple[str, str]]) -> None:
    """Enter some rows."""
    reasons = table["reasons"].combine_chunks()
    decision = table["decision"].cast(pa.string())
    parent = pc.list_parent_indices(reasons)
    without = pc.equal(pc.list_value_length(reasons), 0)
    unknown = pa.chunked_array([pa.nulls(len(table))])
    amount = table["exposure"] if "exposure" in table.column_names else unknown
    amount = pc.cast(amount, pa.decimal128(20, 2))
    chunk_table = pa.table(
        {
            "decision": pa.chunked_array(
                [*decision.take(parent).chunks, *decision.filter(without).chunks], pa.string()
            ),
            "reason": pa.chunked_array(
                [
                    pc.list_flatten(reasons),
                    pa.array([NO_REASON] * (pc.sum(without).as_py() or 0), pa.string()),
                ],
                pa.string(),
            ),
            "exposure": pa.chunked_array(
                [*amount.take(parent).chunks, *amount.filter(without).chunks]
            ),
        }
    )
    summed = chunk_table.group_by(["decision", "reason"]).aggregate(
        [([], "count_all"), ("exposure", "sum")]
    )
    for row in summed.to_pylist():
        key = (row["decision"] or "undecided", row["reason"])
        rows[key] += row["count_all"]
        if row["exposure_sum"] is not None:
            kobo[key] += int(row["exposure_sum"] * 100)
