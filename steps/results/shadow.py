"""Shadow: what a second policy would have decided of the same rows, beside the one in force."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from nightscreen.schemas.enriched import SHADOW_FIELDS
from nightscreen.schemas.rows import NAIRA

if TYPE_CHECKING:
    from collections.abc import Mapping


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
