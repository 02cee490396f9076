"""Answered states: what each check says of a customer, as the text that nights are compared by.

Fields that identify somebody are kept as digests only; those that change with every lookup (logins,
age, when the record was processed) are left out. How two states differ is judged in `changes`.
"""

from __future__ import annotations

import hashlib
import json
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.schemas.checks import Check
from nightscreen.schemas.decisions import DECISION_PART, LISTED_PART, CheckState, State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ANSWERED = {
    Check.BANK_ACCOUNT: ("verified", "mismatch", "unconfirmed", "not_found"),
    Check.KARMA: ("listed", "clear"),
    Check.ECOSYSTEM: ("found", "not_found"),
    Check.SELFIE: ("match", "no_match", "unsure"),
}
"""Statuses that rest on an answer; every other says why there is none."""

LISTINGS = "karma_listings"
_EVIDENCE_BYTES = 8
_DIGEST_BYTES = 6


class Compare(Enum):
    """How a field's old and new value are compared."""

    PLAIN = "plain"
    RANK = "rank"
    MORE_IS_WORSE = "more is worse"
    LISTING = "listing"
    IDENTIFYING = "identifying"


class Tracked(NamedTuple):
    """A field that is compared; `ranks` are its words from best to worst."""

    name: str
    compare: Compare = Compare.PLAIN
    ranks: tuple[str, ...] = ()


_NAMES = ("strong", "likely", "business", "weak", "none")
_AGREES = ("true", "false")

TRACKED: dict[str, tuple[Tracked, ...]] = {
    Check.BANK_ACCOUNT.value: (
        Tracked(
            "bank_account_status",
            Compare.RANK,
            ("verified", "unconfirmed", "not_found", "mismatch"),
        ),
        Tracked("bank_account_bvn_match", Compare.RANK, _AGREES),
        Tracked("name_match", Compare.RANK, _NAMES),
        Tracked("bank_account_name", Compare.IDENTIFYING),
    ),
    Check.KARMA.value: (
        Tracked("karma_status", Compare.RANK, ("clear", "listed")),
        Tracked("karma_listed_by", Compare.LISTING),
        Tracked("karma_amount_in_contention", Compare.MORE_IS_WORSE),
        Tracked(LISTINGS, Compare.LISTING),
    ),
    Check.ECOSYSTEM.value: (
        Tracked("ecosystem_status"),
        Tracked("ecosystem_first_name", Compare.IDENTIFYING),
        Tracked("ecosystem_last_name", Compare.IDENTIFYING),
        Tracked("ecosystem_date_of_birth", Compare.IDENTIFYING),
        Tracked("ecosystem_lenders"),
        Tracked("ecosystem_loans"),
        Tracked("ecosystem_loan_amount_minimum"),
        Tracked("ecosystem_loan_amount_maximum"),
        Tracked("ecosystem_loan_amount_average"),
        Tracked("ecosystem_settled_loans"),
        Tracked("ecosystem_running_loans"),
        Tracked("ecosystem_past_due_loans", Compare.MORE_IS_WORSE),
        Tracked("ecosystem_delayed_paid_loans", Compare.MORE_IS_WORSE),
        Tracked("ecosystem_past_due_loan_amount_due", Compare.MORE_IS_WORSE),
        Tracked("ecosystem_credit_delinquency"),
        Tracked("ecosystem_name_match", Compare.RANK, _NAMES),
        Tracked("ecosystem_dob_match", Compare.RANK, _AGREES),
    ),
    Check.SELFIE.value: (
        Tracked("selfie_status", Compare.RANK, ("match", "unsure", "no_match")),
        Tracked("selfie_similarity"),
    ),
    DECISION_PART: (
        Tracked("decision", Compare.RANK, ("approve", "review", "decline")),
        Tracked("reasons"),
    ),
}

READ = [
    "customer_id",
    "decision",
    "reasons",
    *(f"{check.value}_status" for check in Check),
    *(f"{check.value}_checked_at" for check in Check),
    *(
        field.name
        for check in Check
        for field in TRACKED[check.value]
        if not field.name.endswith("_status")
    ),
]
"""The columns of `enriched` that are read."""


def answered_states(rows: pa.Table, *, run_id: str, at: int) -> list[State]:
    """Return the answered state of each row of `enriched` (columns `READ`).

    Args:
        rows: some rows of the enriched table.
        run_id: the run they are of.
        at: when they were decided, microseconds.
    """
    states: list[State] = [{} for _ in range(rows.num_rows)]
    missing = [False] * rows.num_rows
    for check in Check:
        _add_check(states, missing, rows, check, run_id)
    reasons = rows["reasons"].to_pylist()
    for place, decision in enumerate(_texts(rows["decision"])):
        word = decision or "undecided"
        states[place][LISTED_PART] = CheckState(at, run_id, {"decision": word})
        if word != "undecided" or not missing[place]:
            values = {"decision": word, "reasons": ", ".join(reasons[place] or ())}
            states[place][DECISION_PART] = CheckState(at, run_id, values)
    return states


def _add_check(
    states: Sequence[State], missing: list[bool], rows: pa.Table, check: Check, run_id: str
) -> None:
    """Enter one check's answers; note which rows lack one they might still get."""
    statuses = _texts(rows[f"{check.value}_status"])
    words = ANSWERED[check]
    if not any(status in words for status in statuses):
        for place, status in enumerate(statuses):
            missing[place] |= status != "off"
        return
    instants = rows[f"{check.value}_checked_at"].cast(pa.int64()).to_pylist()
    fields = TRACKED[check.value]
    names = [field.name for field in fields]
    columns = [_field_texts(rows[field.name], field) for field in fields]
    cells = zip(*columns, strict=True)
    for place, (status, row) in enumerate(zip(statuses, cells, strict=True)):
        if status in words:
            pairs = zip(names, row, strict=True)
            values = {name: value for name, value in pairs if value is not None}
            states[place][check.value] = CheckState(instants[place] or 0, run_id, values)
        else:
            missing[place] |= status != "off"


def _field_texts(column: pa.ChunkedArray, field: Tracked) -> list[str | None]:
    """Return a column as the text it is compared by."""
    if field.name == LISTINGS:
        return [_listings(each) for each in column.to_pylist()]
    if pa.types.is_list(column.type):
        return [", ".join(sorted(each)) or None if each else None for each in column.to_pylist()]
    texts = _texts(column)
    if field.compare is Compare.IDENTIFYING:
        return [None if text is None else digest(text) for text in texts]
    return texts


def _listings(listings: Sequence[Mapping[str, Any]] | None) -> str | None:
    """Return digests by which listings are told apart: who reported what kind, since when."""
    if not listings:
        return None
    names = ("identity_kind", "reporting_entity_name", "karma_type", "default_date")
    return ", ".join(
        sorted(digest("\x1f".join(str(each[name]) for name in names)) for each in listings)
    )


def _texts(column: pa.ChunkedArray) -> list[str | None]:
    """Return a column's cells as text; decimals without closing zeros."""
    text = column.cast(pa.string())
    if pa.types.is_decimal(column.type):
        text = pc.replace_substring_regex(text, pattern=r"\.0*$|(\.\d*[1-9])0+$", replacement=r"\1")
    found: list[str | None] = text.to_pylist()
    return found


def digest(text: str) -> str:
    """Return a short digest, to tell that a value differs without keeping it."""
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def evidence_digest(state: State) -> bytes:
    """Return a digest of all that the checks say, whenever and by whichever run it was asked."""
    values = {check.value: state[check.value].values for check in Check if check.value in state}
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=_EVIDENCE_BYTES).digest()
