"""Enriched rows for tests of policies: each is a good customer but for what is said of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from nightscreen.checks.registry import CHECKS
from tests.results.enriched_in_a_test import enriched_row, enriched_table

STATUSES = [f"{check}_status" for check in CHECKS]
GOOD: dict[str, Any] = {
    "ecosystem_status": "found",
    "ecosystem_past_due_loans": 0,
    "ecosystem_past_due_loan_amount_due": Decimal(0),
    "ecosystem_running_loans": 1,
    "ecosystem_name_match": "strong",
    "ecosystem_dob_match": True,
    "exposure": Decimal(50_000),
}
NO_HISTORY: dict[str, Any] = {
    name: None for name in GOOD if name.startswith("ecosystem_") and name != "ecosystem_status"
}


def enriched(
    rows: Sequence[Mapping[str, Any]], extra: Mapping[str, Sequence[Any]] | None = None
) -> pa.Table:
    """Return an enriched table: each row is a good customer but for what is said of it."""
    table = enriched_table(
        [
            enriched_row(**{"customer_id": f"C{number}", **GOOD, **row})
            for number, row in enumerate(rows)
        ]
    )
    carried = {
        name: pa.array([row.get(name) for row in rows], pa.string())
        for name in ("full_name", "email")
    }
    for name, values in {**carried, **(extra or {})}.items():
        if name in table.column_names:
            table = table.drop_columns([name])
        table = table.append_column(name, pa.array(values))
    return table
