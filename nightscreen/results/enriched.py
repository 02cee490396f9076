"""The enriched table: the input's columns, those of each check, and what is decided.

`assemble` fills them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from nightscreen.checks.arrow_types import arrow_type
from nightscreen.checks.registry import CHECKS
from nightscreen.schemas.enriched import (
    BVN_FIELDS,
    CONSENT_UNREADABLE,
    DECISION_FIELDS,
    SIGNALS,
    TX_FIELDS,
)
from nightscreen.schemas.rows import (
    CUSTOMER_EXPOSURE,
    CUSTOMER_ROW,
    EXTRA_PREFIX,
    NAIRA,
    SourceColumn,
    row_schema,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


def input_columns(columns: Sequence[SourceColumn]) -> list[tuple[str, str]]:
    """Return output name and row column of each input column, in input order, each once.

    If a file has bank names and no codes, this column has the code of each name, with which the
    lookup was made.
    """
    found: dict[str, str] = {}
    known = {column.known for column in columns}
    for column in columns:
        source = column.known or f"{EXTRA_PREFIX}{column.output}"
        found.setdefault(column.known or column.output, source)
        if column.known == "bank_name" and "bank_code" not in known:
            found.setdefault("bank_code", "bank_code")
    return list(found.items())


def extra_names(columns: Sequence[SourceColumn]) -> list[str]:
    """Return the output names of the columns that are only carried through."""
    return [column.output for column in columns if column.known is None]


def enriched_schema(columns: Sequence[SourceColumn], *, merged: bool = False) -> pa.Schema:
    """Return the schema of `enriched/part-*.parquet` for an input of these columns.

    Args:
        columns: the input's.
        merged: the rows of one customer id are one customer: `customer_row` numbers them, and
            `customer_exposure` is the sum of its open loans, where the input has exposures.
    """
    rows = row_schema(extra_names(columns))
    fields = [pa.field(name, rows.field(source).type) for name, source in input_columns(columns)]
    for check in CHECKS.values():
        fields += [pa.field(each.name, arrow_type(each.shape)) for each in check.every_column]
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
