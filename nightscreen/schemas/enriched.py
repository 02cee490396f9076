"""The enriched table: its columns and their types, in the order of the output.

`results/assemble.py` fills them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, get_type_hints

import numpy as np
import pyarrow as pa

from nightscreen.schemas.answers import Count, Day, EcosystemRecord, Instant, Number, Text
from nightscreen.schemas.cashflow import TX_FIELDS
from nightscreen.schemas.checks import Check, IdentityKind
from nightscreen.schemas.rows import (
    CUSTOMER_EXPOSURE,
    CUSTOMER_ROW,
    EXTRA_PREFIX,
    INSTANT,
    NAIRA,
    SourceColumn,
    row_schema,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

SAME_IDENTIFIER = {
    "batch_same_bvn": IdentityKind.BVN,
    "batch_same_account": IdentityKind.NUBAN,
    "batch_same_phone": IdentityKind.PHONE,
    "batch_same_image": IdentityKind.IMAGE,
}
"""How many customers of the batch share an identifier with the row, by column."""

ACCOUNT_BVNS = "batch_account_bvns"
RING, RING_SIZE = "ring", "ring_size"
RING_COLUMNS = (RING, RING_SIZE)
"""The ring that a row's customer is tied into, and how many customers it has."""
SIGNALS = (*SAME_IDENTIFIER, ACCOUNT_BVNS, *RING_COLUMNS)
"""The identifiers that other rows of the batch share with a row, in the order of the columns."""

WORD = pa.dictionary(pa.int32(), pa.string())
AMOUNT = pa.decimal128(24, 6)
COST = pa.decimal128(20, 6)

LISTING = pa.struct(
    [
        pa.field("identity_kind", pa.string()),
        pa.field("karma_type", pa.string()),
        pa.field("identity_type", pa.string()),
        pa.field("amount_in_contention", NAIRA),
        pa.field("default_date", pa.date32()),
        pa.field("reason", pa.string()),
        pa.field("reporting_entity_name", pa.string()),
        pa.field("reporting_entity_email", pa.string()),
    ]
)

_ARROW_TYPES: dict[object, pa.DataType] = {
    Text: pa.string(),
    Count: pa.int64(),
    Number: AMOUNT,
    Instant: INSTANT,
    Day: pa.date32(),
}
ECOSYSTEM_FIELDS = tuple(EcosystemRecord.model_fields)[1:]  # all but `extra`
_READ_AS = get_type_hints(EcosystemRecord, include_extras=True)


def _check_fields(check: Check) -> list[tuple[str, pa.DataType]]:
    base = [
        (f"{check.value}_status", WORD),
        (f"{check.value}_checked_at", INSTANT),
        (f"{check.value}_source", WORD),
    ]
    match check:
        case Check.BANK_ACCOUNT:
            return [
                *base,
                ("bank_account_name", pa.string()),
                ("bank_account_bvn_match", pa.bool_()),
                ("name_match", WORD),
                ("name_explained", pa.string()),
            ]
        case Check.KARMA:
            return [
                *base,
                ("karma_listings", pa.list_(LISTING)),
                ("karma_listed_by", pa.list_(pa.string())),
                ("karma_amount_in_contention", NAIRA),
            ]
        case Check.ECOSYSTEM:
            fields = [
                (f"ecosystem_{name}", _ARROW_TYPES[_READ_AS[name]]) for name in ECOSYSTEM_FIELDS
            ]
            return [
                *base,
                *fields,
                ("ecosystem_extra", pa.string()),
                ("ecosystem_name_match", WORD),
                ("ecosystem_dob_match", pa.bool_()),
            ]
        case Check.SELFIE:
            return [*base, ("selfie_similarity", pa.float64())]


CHECK_FIELDS = {check: _check_fields(check) for check in Check}
BVN_FIELDS: list[tuple[str, pa.DataType]] = [
    ("bvn_watchlisted", pa.int64()),
    ("bvn_account_status", pa.string()),
    ("bvn_account_statuses", pa.list_(pa.string())),
    ("bvn_checked_at", INSTANT),
]
"""From BVN details that were confirmed before and that the row's consent allows to be shown."""
CONSENT_UNREADABLE = "consent_unreadable"
"""Whether a row has consent with a time that cannot be read, so that it does not count; also the
code of each such time among the problems."""
DECISION_FIELDS: list[tuple[str, pa.DataType]] = [
    ("cost", COST),
    ("decision", WORD),
    ("reasons", pa.list_(pa.string())),
    ("policy", WORD),
]

SHADOW_FIELDS: list[tuple[str, pa.DataType]] = [
    ("shadow_decision", WORD),
    ("shadow_reasons", pa.list_(pa.string())),
]
"""The decision of a shadow policy, if there is one."""


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


def enriched_schema(
    columns: Sequence[SourceColumn], *, merged: bool = False, shadow: bool = False
) -> pa.Schema:
    """Return the schema of `enriched/part-*.parquet` for an input of these columns.

    Args:
        columns: the input's.
        merged: the rows of one customer id are one customer: `customer_row` numbers them, and
            `customer_exposure` is the sum of its open loans, where the input has exposures.
        shadow: a shadow policy was used.
    """
    rows = row_schema(extra_names(columns))
    fields = [pa.field(name, rows.field(source).type) for name, source in input_columns(columns)]
    for check in Check:
        fields += [pa.field(name, kind) for name, kind in CHECK_FIELDS[check]]
    fields += [pa.field(name, kind) for name, kind in BVN_FIELDS]
    fields += [pa.field(name, kind) for name, kind in TX_FIELDS]
    fields += [pa.field(name, pa.int64()) for name in SIGNALS]
    fields.append(pa.field(CONSENT_UNREADABLE, pa.bool_()))
    fields += [pa.field(name, kind) for name, kind in DECISION_FIELDS]
    if shadow:
        fields += [pa.field(name, kind) for name, kind in SHADOW_FIELDS]
    if merged:
        fields.append(pa.field(CUSTOMER_ROW, pa.int64()))
        if any(name == "exposure" for name, _ in input_columns(columns)):
            fields.append(pa.field(CUSTOMER_EXPOSURE, NAIRA))
    return pa.schema(fields)


def naira_of_micro(micro: NDArray[np.int64]) -> pa.Array:
    """Return micro-naira as a column of decimal naira (`COST`), exactly."""
    buffer = np.zeros((len(micro), 2), dtype=np.int64)
    buffer[:, 0] = micro
    buffer[:, 1] = np.where(micro < 0, -1, 0)
    return pa.Array.from_buffers(COST, len(micro), [None, pa.py_buffer(buffer)])
