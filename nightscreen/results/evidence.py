"""Evidence: what an answer means for a row, as typed columns.

Which answer a row may be shown, by eligibility, consent and freshness, is judged in `plan` and
`assemble`; how names and numbers compare, in `judge`.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from nightscreen.checks.ecosystem import FIELDS
from nightscreen.checks.registry import CHECKS
from nightscreen.results.judge import NAME_FIELDS, dob_agrees, history_name, judge_account

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from nightscreen.schemas.answers import BankAccountAnswer, EcosystemRecord

Line = tuple[Any, ...]

ACCOUNT = pa.schema(
    [
        pa.field("status", pa.string()),
        pa.field("bank_account_name", pa.string()),
        pa.field("bank_account_bvn_match", pa.bool_()),
        pa.field("name_match", pa.string()),
        pa.field("name_explained", pa.string()),
    ]
)
_HISTORY_TYPES = dict(CHECKS["ecosystem"].fields)
_HISTORY_NAMES = (
    *(f"ecosystem_{name}" for name in FIELDS),
    *("ecosystem_extra", "ecosystem_name_match", "ecosystem_dob_match"),
)
_ecosystem_values = itemgetter(*FIELDS)
HISTORY = pa.schema(
    [
        pa.field(name, kind if not pa.types.is_dictionary(kind) else pa.string())
        for name in _HISTORY_NAMES
        for kind in [_HISTORY_TYPES[name]]
    ]
)


class Maker(NamedTuple):
    """How a check's evidence is made.

    Attributes:
        schema: its columns.
        looks_at: the columns of a row that an answer is compared with.
        line: makes a line of a row and of the record in its answer; None where there is none.
    """

    schema: pa.Schema
    looks_at: tuple[str, ...]
    line: Callable[[Mapping[str, Any], Any], Line]


def _account(row: Mapping[str, Any], record: BankAccountAnswer | None) -> Line:
    verdict = judge_account(row, record)
    grade, explained = (None, None)
    if verdict.name is not None:
        grade, explained = verdict.name.grade, verdict.name.explained
    return verdict.status, verdict.account_name, verdict.bvn_match, grade, explained


def _history(row: Mapping[str, Any], record: EcosystemRecord | None) -> Line:
    if record is None:
        return (None,) * len(_HISTORY_NAMES)
    name_match = history_name(row, record)
    return (
        *_ecosystem_values(record.__dict__),
        record.extra_json() if record.extra else None,
        None if name_match is None else name_match.grade,
        dob_agrees(row["date_of_birth"], record.date_of_birth),
    )


MAKERS = {
    "bank_account": Maker(ACCOUNT, ("flaws", "bvn", *NAME_FIELDS), _account),
    "ecosystem": Maker(HISTORY, (*NAME_FIELDS, "date_of_birth"), _history),
}


def evidence_of(
    check: str, rows: pa.Table, records: Mapping[int, object]
) -> tuple[NDArray[np.int64], pa.Table]:
    """Hold the answers to a chunk's rows against the rows.

    Args:
        check: bank account or ecosystem.
        rows: the chunk.
        records: the record of each row's answer, by the number of the row.

    Returns:
        The numbers of these rows, ascending, and a line of the check's columns for each.
    """
    maker, numbers = MAKERS[check], sorted(records)
    places = np.array(numbers, np.int64)
    judged = rows.select(list(maker.looks_at)).take(pa.array(places)).to_pylist()
    lines = [maker.line(row, records[at]) for row, at in zip(judged, numbers, strict=True)]
    return places, _table(lines, maker.schema)


def _table(lines: Sequence[Line], schema: pa.Schema) -> pa.Table:
    if not lines:
        return schema.empty_table()
    columns = zip(*lines, strict=True)
    return pa.table(
        [
            typed_column(list(values), each.type)
            for values, each in zip(columns, schema, strict=True)
        ],
        schema=schema,
    )


def typed_column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return values as a column of a type; decimals are rounded to its places."""
    try:
        return pa.array(values, kind)
    except pa.ArrowInvalid:  # a decimal of more places, which is rare
        rounded = [None if value is None else round(value, kind.scale) for value in values]
        return pa.array(rounded, kind)
