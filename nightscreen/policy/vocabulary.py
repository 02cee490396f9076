"""The columns a condition may name: their types, their allowed values, and which are sensitive.

A policy may name any of them, even if no batch has it yet. `conditions` reads conditions.
"""

from __future__ import annotations

import re
from datetime import date
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.checks.arrow_types import check_schema
from nightscreen.checks.registry import CHECKS
from nightscreen.schemas.answers import ACCOUNT_STATUSES, BvnDetails
from nightscreen.schemas.checks import NoAnswer, Outcome, Purpose, Source
from nightscreen.schemas.columns import KNOWN_COLUMNS, REQUESTED
from nightscreen.schemas.enriched import BVN_FIELDS, COST, DECISION_FIELDS, SIGNALS, TX_FIELDS
from nightscreen.schemas.policy import CarriedKind
from nightscreen.schemas.rows import INSTANT, row_schema
from nightscreen.values.names import GRADES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PURPOSE = "purpose"
SENSITIVE = (
    *("gender", "marital status", "state of origin", "religion", "tribe or ethnic group"),
    *("nationality", "mother tongue", "disability or health", "political or union membership"),
)
"""Attributes that no decision on credit may use.

The constitution, the Nigeria Data Protection Act.
"""
_SENSITIVE_PARTS = (
    *("gender", "marital", "stateoforigin", "originstate", "lgaoforigin", "birthplace"),
    *("placeofbirth", "countryofbirth", "religi", "ethnic", "tribe", "tribal", "nationalit"),
    *("citizenship", "mothertongue", "nativelanguage", "firstlanguage", "spokenlanguage"),
    *("languagespoken", "disabilit", "handicap", "pregnan", "genotype", "bloodgroup", "medical"),
    *("healthstatus", "politic", "tradeunion", "sexualorientation", "hometown"),
)
_SENSITIVE_WORDS = frozenset(
    {
        *("sex", "married", "spouse", "race", "racial", "creed", "church", "mosque", "muslim"),
        *("christian", "tongue", "hiv", "disabled"),
    }
)
_NAIVE_INSTANT = pa.timestamp("us")
_BVN_HIDDEN = frozenset({"bvn", "reference", "extra", "accounts"})

NO_ANSWER = tuple(word.value for word in NoAnswer)
OPEN = tuple(
    word.value
    for word in (
        NoAnswer.TEST_MODE,
        NoAnswer.UNREADABLE,
        NoAnswer.IN_DOUBT,
        NoAnswer.FAILED,
        NoAnswer.PENDING,
    )
)
"""Statuses of a check that was asked for and has no answer: such a row is never approved."""
SILENT = (*NO_ANSWER, Outcome.NOT_FOUND.value, Outcome.CLEAR.value)
"""Statuses with which a check's other columns are empty as expected."""

_NO_STATUS = "spared"
"""No row has this status: only a listing spares a karma lookup, and its rows are `listed`. It is
allowed because existing policies may name it."""


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return a column's type in conditions: dictionaries are text, instants are naive UTC."""
    if pa.types.is_dictionary(kind):
        return pa.string()
    return _NAIVE_INSTANT if kind == INSTANT else kind


def _bvn_columns() -> dict[str, pa.DataType]:
    """Return the columns of BVN details; those of `enriched` have its types."""
    columns: dict[str, pa.DataType] = {}
    for name, field in BvnDetails.model_fields.items():
        if name not in _BVN_HIDDEN:
            day = field.annotation == (date | None)
            columns[f"bvn_{name}"] = pa.date32() if day else pa.string()
    return columns | {name: _plain(kind) for name, kind in BVN_FIELDS}


@cache
def known_columns() -> dict[str, pa.DataType]:
    """Return every column a condition may name, with its type in conditions."""
    rows = row_schema()
    columns = {name: _plain(rows.field(name).type) for name in KNOWN_COLUMNS}
    for check in CHECKS:
        columns |= {field.name: _plain(field.type) for field in check_schema(check)}
    columns |= _bvn_columns()
    columns |= {name: _plain(kind) for name, kind in TX_FIELDS}
    columns |= dict.fromkeys(SIGNALS, pa.int64())
    return columns | {"cost": COST, PURPOSE: pa.string()}


@cache
def check_columns() -> dict[str, str]:
    """Return the check that each column of the checks belongs to."""
    return {field.name: check for check in CHECKS for field in check_schema(check)}


@cache
def words() -> dict[str, tuple[str, ...]]:
    """Return the allowed values of each column that has a fixed set of them."""
    allowed: dict[str, tuple[str, ...]] = {}
    for check in CHECKS.values():
        allowed[check.status] = (*check.answered, *NO_ANSWER, _NO_STATUS)
        allowed[check.source] = tuple(source.value for source in Source)
    allowed["name_match"] = allowed["ecosystem_name_match"] = GRADES
    allowed["bvn_account_status"] = ACCOUNT_STATUSES
    allowed[PURPOSE] = tuple(purpose.value for purpose in Purpose)
    return allowed


def outputs_of_a_decision() -> frozenset[str]:
    """Return the columns that a decision writes and so cannot depend on."""
    return frozenset(name for name, _ in DECISION_FIELDS if name != "cost")


@cache
def may_be_absent() -> frozenset[str]:
    """Return the columns that may be empty without any evidence missing.

    These are BVN details and cash flow, which few customers have, requested loans, and the shared
    identifiers of a batch.
    """
    cash_flow = (name for name, _ in TX_FIELDS)
    return frozenset({*_bvn_columns(), *cash_flow, *REQUESTED, *SIGNALS})


def is_sensitive(text: str) -> bool:
    """Return whether the name of a column or field is an attribute no decision may use."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    tokens = re.findall(r"[a-z]+", spaced.casefold())
    joined = "".join(tokens)
    return any(part in joined for part in _SENSITIVE_PARTS) or not _SENSITIVE_WORDS.isdisjoint(
        tokens
    )


def suggestion(word: str, among: Iterable[str]) -> str:
    """Return `; did you mean …?` if a similar word is known, else an empty text."""
    known = list(among)
    near = get_close_matches(word.casefold(), known, n=1, cutoff=0.6)
    if not near:
        near = [name for name in known if name.endswith(f"_{word.casefold()}")][:1]
    return f"; did you mean {near[0]}?" if near else ""


CARRIED_TYPES = {
    CarriedKind.TEXT: pa.string(),
    CarriedKind.NUMBER: pa.decimal128(18, 6),
    CarriedKind.DATE: pa.date32(),
}
"""The type of a carried column in conditions; a number has six decimal places, and is no float."""
CARRIED_SQL = {
    CarriedKind.TEXT: "{0}",
    CarriedKind.NUMBER: "TRY_CAST(replace(ltrim(trim({0}), '₦'), ',', '') AS DECIMAL(18, 6))",
    CarriedKind.DATE: r"TRY_CAST(regexp_extract({0}, '^\s*(\d{{4}}-\d\d-\d\d)', 1) AS DATE)",
}
"""How the text of a carried column is read: 1,250.50 with or without ₦, a day as YYYY-MM-DD; null
if it cannot be read."""


def column_types(carried: Mapping[str, CarriedKind]) -> dict[str, pa.DataType]:
    """Return every column a condition may name, including the policy's carried columns."""
    return {**{name: CARRIED_TYPES[kind] for name, kind in carried.items()}, **known_columns()}


def fitted(table: pa.Table, name: str, kind: pa.DataType) -> pa.ChunkedArray | pa.Array:
    """Return a column with its type in conditions; null if the table has none of that type.

    A text column is not read as a number, a date or a flag: an input column that happens to have
    the name of a result's column is not evidence.
    """
    if name not in table.column_names:
        return pa.nulls(table.num_rows, kind)
    column = table[name]
    if column.type == kind:
        return column
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string(column.type) != pa.types.is_string(kind):
        return pa.nulls(table.num_rows, kind)
    if pa.types.is_timestamp(column.type) and pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", tz="UTC")).cast(kind)
    return _cast(column, kind)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> Any:  # noqa: ANN401 - Arrow has no types
    try:
        return pc.cast(column, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(column), kind)
