"""Enriched rows for tests, made from the few cells that matter; all people are made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nightscreen.checks.registry import CHECKS
from nightscreen.results.enriched import enriched_schema
from nightscreen.schemas.rows import SourceColumn

KNOWN = (
    "customer_id",
    "first_name",
    "last_name",
    "bvn",
    "account_number",
    "bank_code",
    "phone",
    "date_of_birth",
    "exposure",
    "consent_reference",
)
SCHEMA = enriched_schema([SourceColumn(name, name, name) for name in KNOWN])
ASKED_AT = datetime(2026, 3, 1, 22, 0, tzinfo=UTC)

CLEAR: dict[str, Any] = {"karma_status": "clear", "karma_listings": [], "karma_listed_by": []}
PENDING: dict[str, Any] = {"karma_status": "pending"}


def listed(
    amount: str | int | None = "5000",
    *,
    kind: str = "bvn",
    reporter: str = "Harbour Finance",
    karma_type: str | None = "Loan default",
    since: date | None = date(2024, 5, 17),
) -> dict[str, Any]:
    """Return the cells of a customer who is listed once."""
    claimed = None if amount is None else Decimal(amount)
    listing = {
        "identity_kind": kind,
        "karma_type": karma_type,
        "amount_in_contention": claimed,
        "default_date": since,
        "reason": "unpaid",
        "reporting_entity_name": reporter,
        "reporting_entity_email": "desk@harbour.example",
    }
    return {
        "karma_status": "listed",
        "karma_listings": [listing],
        "karma_listed_by": [kind],
        "karma_amount_in_contention": claimed,
    }


def enriched_row(customer_id: str, **cells: Any) -> dict[str, Any]:  # noqa: ANN401 - any cell
    """Return one row: account verified and karma clear unless said otherwise."""
    row: dict[str, Any] = {
        "customer_id": customer_id,
        "first_name": "Amaka",
        "last_name": "Obi",
        "bvn": "22212345678",
        "account_number": "0123456789",
        "bank_code": "058",
        "bank_account_status": "verified",
        "bank_account_name": "OBI AMAKA",
        "bank_account_bvn_match": True,
        "name_match": "strong",
        "ecosystem_status": "refused",
        "selfie_status": "off",
        "decision": "approve",
        "reasons": [],
        "policy": "default@abc",
        "cost": Decimal(0),
        **CLEAR,
        **cells,
    }
    for check in CHECKS:
        answered = row[f"{check}_status"] not in {"off", "pending", "refused", "failed"}
        row.setdefault(f"{check}_checked_at", ASKED_AT if answered else None)
        row.setdefault(f"{check}_source", "asked" if answered else None)
    return row


def enriched_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    arrays = []
    for each in SCHEMA:
        cells = [row.get(each.name) for row in rows]
        if pa.types.is_dictionary(each.type):
            arrays.append(pa.array(cells, pa.string()).dictionary_encode().cast(each.type))
        else:
            arrays.append(pa.array(cells, each.type))
    return pa.table(arrays, schema=SCHEMA)


def write_part(folder: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    (folder / "enriched").mkdir(parents=True, exist_ok=True)
    part = folder / "enriched" / "part-00000.parquet"
    pq.write_table(enriched_table(rows), part)
    return part
