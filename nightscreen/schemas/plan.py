"""The plan of a run: which lookups its rows need, which have a stored answer, which must be made.

Making a plan belongs to `planning/`; a plan holds no identifier but in the sealed table of lookups.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import pyarrow as pa

from nightscreen.schemas.checks import IdentityKind, NoAnswer


class CheckIdentity(NamedTuple):
    """A check with the kind of identity it is asked by; karma may have several."""

    check: str
    kind: IdentityKind

    @property
    def column(self) -> str:
        """Name of the slot's columns in a row plan."""
        return f"{self.check}:{self.kind.value}"

    @property
    def file_name(self) -> str:
        """Name of the slot in names of files."""
        return f"{self.check}-{self.kind.value}"


class SkipReason(IntEnum):
    """Why a row's slot is not asked; ASK where it is. The order is that of the contract."""

    ASK = 0
    INELIGIBLE = 1
    INVALID = 2
    REFUSED = 3

    @property
    def status(self) -> str:
        """Return the word of the output."""
        return NoAnswer[self.name].value


SUBJECT = pa.binary(16)

NEEDED = pa.schema(
    [
        pa.field("check", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("subject", SUBJECT),
        pa.field("identity", pa.string()),
        pa.field("together_with", pa.string()),
        pa.field("consent_reference", pa.string()),
        pa.field("consent_ends_at", pa.int64()),
        pa.field("row", pa.int64()),
    ]
)
"""The lookups to be asked, one row each: identities in clear (sealed at rest); `row` is the
batch's row in whose name the call is made."""


@dataclass(slots=True)
class CheckCounts:
    """A check's rows and lookups before any call is made.

    Rows are input rows; lookups are answers that eligible rows need; distinct are the calls that
    would answer them all; reused, paid, free and unreadable are those already answered, unreadable
    by this run or an earlier one, in_doubt those left alone after calls in doubt.
    """

    rows_refused: int = 0
    rows_ineligible: int = 0
    rows_invalid: int = 0
    lookups: int = 0
    distinct: int = 0
    reused: int = 0
    paid: int = 0
    free: int = 0
    unreadable: int = 0
    in_doubt: int = 0
    saved_by_reuse_micro: int = 0
    oldest_reused_at: int | None = None

    def add_lookups(self, other: CheckCounts) -> None:
        """Add what another counted of lookups; rows are counted by each for itself."""
        names = ("lookups", "distinct", "reused", "paid", "free", "unreadable", "in_doubt")
        for name in (*names, "saved_by_reuse_micro"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        known = (self.oldest_reused_at, other.oldest_reused_at)
        self.oldest_reused_at = min((at for at in known if at is not None), default=None)


@dataclass(frozen=True, slots=True)
class Plan:
    """The numbers of a plan; rows and lookups are in the run's workspace."""

    chunks: int
    rows: int  # rows to be screened
    planned_at: int  # instant the plan was judged at, microseconds
    checks: dict[str, CheckCounts] = field(default_factory=dict)
    needed: int = 0  # lookups to be asked, over all checks
