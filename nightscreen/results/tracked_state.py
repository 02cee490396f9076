"""Answered states: each check's answer about a customer, as texts to compare runs by.

Fields that identify a person are stored only as digests; fields that change with every lookup
(logins, age, when the record was processed) are left out. `changes` judges how two states differ.
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

    from nightscreen.schemas.contests import Review
    from nightscreen.schemas.decisions import KnownCustomer

_EVIDENCE_BYTES = 8
_DIGEST_BYTES = 6
TRACKED: dict[str, tuple[Column, ...]] = {
    **{check: declared.tracked for check, declared in CHECKS.items()},
    DECISION_PART: (
        Column("decision", Kind.WORD, "", Compare.RANK, ("approve", "review", "decline")),
        Column("reasons", [Kind.TEXT], "", Compare.PLAIN),
    ),
}
"""The columns that runs are compared by, for each check and for the decision."""

READ = [
    "customer_id",
    "decision",
    "reasons",
    *(declared.checked_at for declared in CHECKS.values()),
    *(each.name for declared in CHECKS.values() for each in declared.tracked),
]
"""The columns of `enriched` that states are made from."""


def states_of(rows: pa.Table, *, run_id: str, at: int) -> list[State]:
    """Return the answered state of each row of `enriched`.

    Args:
        rows: some rows with the columns `READ`.
        run_id: the run of the rows.
        at: when the rows were decided, in microseconds.
    """
    states: list[State] = [{} for _ in range(rows.num_rows)]
    complete = np.ones(rows.num_rows, bool)  # which rows lack no answer
    for check, declared in CHECKS.items():
        status = rows[declared.status].cast(pa.string())
        answered = pc.is_in(status, value_set=pa.array(declared.answered)).to_numpy()
        complete &= answered | pc.is_in(status, value_set=pa.array(["off"])).to_numpy()
        places = np.flatnonzero(answered)
        some = rows.take(pa.array(places))
        names = [each.name for each in declared.tracked]
        texts = [_field_texts(some[each.name], each) for each in declared.tracked]
        instants = some[declared.checked_at].cast(pa.int64()).fill_null(0).to_pylist()
        for place, instant, *values in zip(places.tolist(), instants, *texts, strict=True):
            named = zip(names, values, strict=True)
            stored = {name: text for name, text in named if text is not None}
            states[place][check] = CheckState(instant, run_id, stored)
    decisions = rows["decision"].cast(pa.string()).fill_null(Decision.UNDECIDED.value).to_pylist()
    listed = zip(states, decisions, rows["reasons"].to_pylist(), complete.tolist(), strict=True)
    for state, decision, codes, is_complete in listed:
        state[LISTED_PART] = CheckState(at, run_id, {"decision": decision})
        if is_complete or decision != Decision.UNDECIDED.value:
            compared = {"decision": decision, "reasons": ", ".join(codes or ())}
            state[DECISION_PART] = CheckState(at, run_id, compared)
    return states


def _field_texts(column: pa.ChunkedArray, field: Column) -> list[str | None]:
    """Return a column as texts to compare; None for a row without the field."""
    if field.name == LISTINGS:
        return [_listings(each) for each in column.to_pylist()]
    if pa.types.is_nested(column.type):
        texts = [_nested_text(each) for each in column.to_pylist()]
    else:
        texts = _texts(column).to_pylist()
    if field.compare is Compare.IDENTIFYING:
        return [None if text is None else digest(text) for text in texts]
    return texts


def _nested_text(value: Any) -> str | None:  # noqa: ANN401 - a list or a struct of a row
    """Return a list sorted as text, so that the same items in another order are equal."""
    if not value:
        return None
    if isinstance(value, list):
        return ", ".join(sorted(_nested_text(each) or "" for each in value))
    return json.dumps(value, sort_keys=True, default=str) if isinstance(value, dict) else str(value)


def _listings(listings: Sequence[Mapping[str, Any]] | None) -> str | None:
    """Return a digest of each listing: identity, reporter, kind and date of default."""
    if not listings:
        return None
    names = ("identity_kind", "reporting_entity_name", "karma_type", "default_date")
    return ", ".join(
        sorted(digest("\x1f".join(str(each[name]) for name in names)) for each in listings)
    )


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column as text, decimals without trailing zeros."""
    text = column.cast(pa.string())
    if pa.types.is_decimal(column.type):
        text = pc.replace_substring_regex(text, pattern=r"\.0*$|(\.\d*[1-9])0+$", replacement=r"\1")
    return text


def digest(text: str) -> str:
    """Return a short digest, which shows that a value differs without storing it."""
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def evidence_digest(state: State) -> bytes:
    """Return a digest of all answers of the checks, whatever their date and run."""
    values = {check: state[check].values for check in CHECKS if check in state}
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=_EVIDENCE_BYTES).digest()


def rests_on(review: Review, known: KnownCustomer | None) -> bool:
    """Return whether a review was made on the customer's current evidence."""
    return known is not None and evidence_digest(known.state) == review.evidence


def listed_decision(known: KnownCustomer | None) -> str:
    """Return the decision that the last run listed for a customer, `undecided` if none."""
    part = None if known is None else known.state.get(LISTED_PART)
    return Decision.UNDECIDED.value if part is None else part.values["decision"]


def previous_decision(known: KnownCustomer | None) -> str | None:
    """Return the last decision with complete evidence; None if there is none."""
    part = None if known is None else known.state.get(DECISION_PART)
    return None if part is None else part.values["decision"]


def decided_reasons(state: State, decision: str = "") -> list[str]:
    """Return the reasons of the last decision with complete evidence, the main one first.

    Empty if `decision` is given and that decision differs.
    """
    part = state.get(DECISION_PART)
    if part is None or (decision and part.values["decision"] != decision):
        return []
    return [code for code in part.values.get("reasons", "").split(", ") if code]
