"""Answered states: what each check says of a customer, as the text that nights are compared by.

Fields that identify somebody are kept as digests only; those that change with every lookup (logins,
age, when the record was processed) are left out. How two states differ is judged in `changes`.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.checks.declaration import Column, Compare, Kind
from nightscreen.checks.karma import LISTINGS
from nightscreen.checks.registry import CHECKS
from nightscreen.schemas.decisions import DECISION_PART, LISTED_PART, CheckState, State
from nightscreen.schemas.policy import Decision

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

_EVIDENCE_BYTES = 8
_DIGEST_BYTES = 6
TRACKED: dict[str, tuple[Column, ...]] = {
    **{check: declared.tracked for check, declared in CHECKS.items()},
    DECISION_PART: (
        Column("decision", Kind.WORD, "", Compare.RANK, ("approve", "review", "decline")),
        Column("reasons", [Kind.TEXT], "", Compare.PLAIN),
    ),
}
"""The columns that nights are compared by, by check; and those of the decision."""

READ = [
    "customer_id",
    "decision",
    "reasons",
    *(declared.checked_at for declared in CHECKS.values()),
    *(each.name for declared in CHECKS.values() for each in declared.tracked),
]
"""The columns of `enriched` that are read."""


def state_texts(rows: pa.Table, *, run_id: str, at: int) -> pa.Array:
    """Return the answered state of each row of `enriched` as the JSON that the journal keeps.

    Args:
        rows: columns `READ` of some rows.
        run_id: the run they are of.
        at: when they were decided, microseconds.
    """
    rows = rows.combine_chunks()
    parts: list[pa.Array] = []
    for check, declared in CHECKS.items():
        status = _texts(rows[declared.status])
        answered = pc.is_in(status, value_set=pa.array(declared.answered))
        if pc.any(answered).as_py():
            values = {each.name: _field_texts(rows[each.name], each) for each in declared.tracked}
            # Arrow leaves a row out of a join in which all is null; a status never is.
            values[declared.status] = status.fill_null("")
            instants = _texts(rows[declared.checked_at].cast(pa.int64())).fill_null("0")
            part = _part(check, instants, run_id, values)
            parts.append(pc.if_else(answered, part, None))
    decision = _texts(rows["decision"]).fill_null("undecided")
    parts.append(_part(LISTED_PART, pa.scalar(str(at)), run_id, {"decision": decision}))
    reasons = pc.binary_join(rows["reasons"], ", ").fill_null("")
    values = {"decision": decision, "reasons": _quotable(reasons)}
    decided = _part(DECISION_PART, pa.scalar(str(at)), run_id, values)
    parts.append(pc.if_else(pa.array(has_decision(rows)), decided, None))
    return _joined("{", _joined(*parts, between=","), "}")


def _part(
    name: str, at: pa.Array | pa.StringScalar, run_id: str, values: Mapping[str, pa.Array]
) -> pa.Array:
    """Return one check's part of states; values that are null are left out."""
    pairs = [_joined(f'"{key}":"', texts, '"', skip=False) for key, texts in values.items()]
    return _joined(f'"{name}":[', at, f',"{run_id}",{{', _joined(*pairs, between=","), "}]")


def _joined(
    *texts: pa.Array | pa.StringScalar | str, between: str = "", skip: bool = True
) -> pa.Array:
    return pc.binary_join_element_wise(
        *texts, between, null_handling="skip" if skip else "emit_null"
    )


def read_state(text: str | bytes) -> State:
    """Return a state from its JSON text."""
    return {name: CheckState(*part) for name, part in json.loads(text).items()}


def has_decision(rows: pa.Table) -> NDArray[np.bool_]:
    """Return which rows could be decided: decided, or undecided with every answer there is."""
    missing = np.zeros(rows.num_rows, bool)
    for declared in CHECKS.values():
        status = _texts(rows[declared.status])
        settled = pc.is_in(status, value_set=pa.array([*declared.answered, "off"]))
        missing |= ~settled.to_numpy(zero_copy_only=False)
    decided = pc.not_equal(_texts(rows["decision"]), Decision.UNDECIDED.value)
    found: NDArray[np.bool_] = decided.to_numpy(zero_copy_only=False).astype(bool) | ~missing
    return found


def _field_texts(column: pa.ChunkedArray, field: Column) -> pa.Array:
    """Return a column as the text it is compared by, as it may stand between quotes."""
    if field.name == LISTINGS:
        return pa.array([_listings(each) for each in column.to_pylist()], pa.string())
    if pa.types.is_nested(column.type):
        found = [_nested_text(each) for each in column.to_pylist()]
        texts = pa.array(found, pa.string())
    else:
        texts = _texts(column)
    if field.compare is Compare.IDENTIFYING:
        found = [None if text is None else digest(text) for text in texts.to_pylist()]
        return pa.array(found, pa.string())
    is_free = pa.types.is_nested(column.type) or pa.types.is_string(column.type)
    return _quotable(texts) if is_free else texts


def _nested_text(value: Any) -> str | None:  # noqa: ANN401 - a list or a struct of a row
    """Return a list in an order of its own, so that the same words compare as equal."""
    if not value:
        return None
    if isinstance(value, list):
        return ", ".join(sorted(_nested_text(each) or "" for each in value))
    return json.dumps(value, sort_keys=True, default=str) if isinstance(value, dict) else str(value)


def _quotable(texts: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return free text as JSON has it between quotes; all other columns are words and numbers."""
    encoded = _one(texts).dictionary_encode()
    words = [json.dumps(each, ensure_ascii=False)[1:-1] for each in encoded.dictionary.to_pylist()]
    return pa.array(words, pa.string()).take(encoded.indices)


def _listings(listings: Sequence[Mapping[str, Any]] | None) -> str | None:
    """Return digests by which listings are told apart: who reported what kind, since when."""
    if not listings:
        return None
    names = ("identity_kind", "reporting_entity_name", "karma_type", "default_date")
    return ", ".join(
        sorted(digest("\x1f".join(str(each[name]) for name in names)) for each in listings)
    )


def _texts(column: pa.ChunkedArray) -> pa.Array:
    """Return a column's cells as text; decimals without closing zeros."""
    text = _one(column).cast(pa.string())
    if pa.types.is_decimal(column.type):
        text = pc.replace_substring_regex(text, pattern=r"\.0*$|(\.\d*[1-9])0+$", replacement=r"\1")
    return text


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def digest(text: str) -> str:
    """Return a short digest, to tell that a value differs without keeping it."""
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def evidence_digest(state: State) -> bytes:
    """Return a digest of all that the checks say, whenever and by whichever run it was asked."""
    values = {check: state[check].values for check in CHECKS if check in state}
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=_EVIDENCE_BYTES).digest()
