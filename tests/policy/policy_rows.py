"""Enriched rows for tests of policies, built from what is said of them; the rest is empty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from nightscreen.checks.registry import CHECKS
from nightscreen.results.enriched import enriched_schema
from nightscreen.schemas.rows import SourceColumn

COLUMNS = [
    SourceColumn(name, name, name) for name in ("customer_id", "full_name", "exposure", "email")
]
GOOD: dict[str, Any] = {
    "karma_status": "clear",
    "karma_listings": [],
    "karma_listed_by": [],
    "bank_account_status": "verified",
    "ecosystem_status": "found",
    "ecosystem_past_due_loans": 0,
    "ecosystem_past_due_loan_amount_due": Decimal(0),
    "ecosystem_running_loans": 1,
    "ecosystem_name_match": "strong",
    "ecosystem_dob_match": True,
    "selfie_status": "off",
    "exposure": Decimal(50_000),
}
NO_HISTORY: dict[str, Any] = {
    name: None for name in GOOD if name.startswith("ecosystem_") and name != "ecosystem_status"
}


CHECKED_AT = datetime(2026, 3, 1, 22, 0, tzinfo=UTC)


def listing(
    kind: str,
    amount: int | None,
    karma_type: str | None = "Loan default",
    since: date | None = date(2024, 5, 17),
) -> dict[str, Any]:
    """Return the columns of a customer listed once."""
    found = {
        "identity_kind": kind,
        "karma_type": karma_type,
        "amount_in_contention": None if amount is None else Decimal(amount),
        "default_date": since,
    }
    return {
        "karma_status": "listed",
        "karma_checked_at": CHECKED_AT,
        "karma_listings": [found],
        "karma_listed_by": [kind],
        "karma_amount_in_contention": found["amount_in_contention"],
    }


def enriched(
    rows: Sequence[Mapping[str, Any]], extra: Mapping[str, Sequence[Any]] | None = None
) -> pa.Table:
    """Return an enriched table: each row is a good customer but for what is said of it."""
    schema = enriched_schema(COLUMNS)
    full = [
        {**GOOD, "customer_id": f"C{number}", "decision": "undecided", "reasons": [], **row}
        for number, row in enumerate(rows)
    ]
    columns = {}
    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        values = pa.array([row.get(field.name) for row in full], kind)
        columns[field.name] = values.cast(field.type) if kind != field.type else values
    table = pa.table(columns, schema=schema)
    for name, values in (extra or {}).items():
        if name in table.column_names:
            table = table.drop_columns([name])
        table = table.append_column(name, pa.array(values))
    return table


STATUSES = [f"{check}_status" for check in CHECKS]
