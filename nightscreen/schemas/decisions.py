"""Decision lists, changes and returned lists: the columns and shapes of their files and tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from nightscreen.schemas.policy import Decision
from nightscreen.schemas.rows import INSTANT

if TYPE_CHECKING:
    from collections.abc import Mapping


LISTED = (Decision.DECLINE, Decision.REVIEW, Decision.UNDECIDED)
"""Decisions that a person has to work on, in the order of the workbook's sheets."""

REVIEWED = {
    "approve": Decision.APPROVE,
    "approved": Decision.APPROVE,
    "decline": Decision.DECLINE,
    "declined": Decision.DECLINE,
    "review": Decision.REVIEW,
}
"""What a reviewer may write, in upper or lower case."""


class ChangeKind(StrEnum):
    """How a customer differs from the last answered state, most important first."""

    NEW_LISTING = "new_listing"
    WORSE = "worse"
    CHANGED = "changed"
    CLEARED = "cleared"
    BETTER = "better"
    NEW = "new"
    GONE = "gone"


_WORD = pa.dictionary(pa.int32(), pa.string())

CHANGES = pa.schema(
    [
        pa.field("customer", pa.string()),
        pa.field("check", _WORD),
        pa.field("field", _WORD),
        pa.field("kind", _WORD),
        pa.field("old", pa.string()),
        pa.field("new", pa.string()),
        pa.field("previous_run_id", _WORD),
        pa.field("previous_at", INSTANT),
        pa.field("run_id", _WORD),
    ]
)
"""One row per field that differs; `customer` is a pseudonym in hexadecimal."""

DIFFERS = "(differs)"  # replaces the new value of an identifying field; the old one is left out

DECISION_COLUMNS = (
    *("customer_id", "customer_name", "bvn_last4", "decision", "previous_decision", "change"),
    *("reason_code", "reason_text", "other_reasons", "action", "exposure"),
    *("karma_amount", "karma_listed_by", "karma_type", "karma_reason", "karma_reporter"),
    *("karma_default_date", "past_due_amount", "running_loans", "bank_account_name", "name_match"),
    *("missing_checks", "evidence_as_of", "run_id", "policy", "decided_by"),
)
REVIEW_COLUMNS = ("reviewer_decision", "reviewer", "review_note", "reviewed_at")
"""Columns left empty for the reviewer."""

QUARANTINE_COLUMNS = ("line", "column", "code", "hint")
"""Columns added after those of the file, on each refused row."""


class CheckState(NamedTuple):
    """The last answer of one check about a customer."""

    at: int  # when it was answered, microseconds
    run_id: str  # the run that last saw it
    values: dict[str, str]  # field and value as text; absent values are left out


State = dict[str, CheckState]
"""A customer's last answers by check, with `decision` (the last one that was not `undecided`) and
`listed` (the last run's decision, whatever it was)."""

DECISION_PART, LISTED_PART = "decision", "listed"


@dataclass(frozen=True, slots=True)
class KnownCustomer:
    """A customer's state in the journal."""

    state: State  # the last answers
    run_id: str  # the run that last changed it
    decided_at: int  # when that was
    # the run that reported the customer gone, unless they have come back since
    gone_run_id: str | None = None


class FieldChange(NamedTuple):
    """One field that differs from the last answered state."""

    check: str | None
    field: str | None
    kind: ChangeKind
    old: str | None = None
    new: str | None = None
    previous_run_id: str | None = None
    previous_at: int | None = None


@dataclass(frozen=True, slots=True)
class ReviewRow:
    """A row of a returned list as text, with its line in the file or its sheet in a workbook."""

    line: int
    sheet: str
    cells: Mapping[str, str] = field(repr=False)

    def __getitem__(self, column: str) -> str:
        """Return a cell without surrounding blanks; empty if there is none."""
        return self.cells.get(column, "").strip()


@dataclass(frozen=True, slots=True)
class ReviewIssue:
    """A mistake in a row of a returned list, without any value of the row."""

    line: int
    sheet: str
    column: str
    code: str
    hint: str
