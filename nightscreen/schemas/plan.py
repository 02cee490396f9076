"""The plan of a run and its quote; `planning/` makes both.

Only the table of lookups, which is sealed on disk, holds identifiers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import pyarrow as pa

from nightscreen.schemas.checks import IdentityKind, NoAnswer
from nightscreen.schemas.money import naira_text


class CheckIdentity(NamedTuple):
    """A check with the kind of identifier it asks by; karma may have several."""

    check: str
    kind: IdentityKind

    @property
    def column(self) -> str:
        """Return the column of a row plan."""
        return f"{self.check}:{self.kind.value}"

    @property
    def file_name(self) -> str:
        """Return the name used in names of files."""
        return f"{self.check}-{self.kind.value}"


class SkipReason(IntEnum):
    """Why a row's lookup is not asked, the first that applies; `ASK` if it is."""

    ASK = 0
    INELIGIBLE = 1
    INVALID = 2
    REFUSED = 3

    @property
    def status(self) -> str:
        """Return the status in the output."""
        return NoAnswer[self.name].value


SUBJECT = pa.binary(16)  # a pseudonym, as wide as `SUBJECT_BYTES`

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
"""The lookups to be asked, one row each, with identities in plain text (sealed on disk); `row` is
the row of the batch that the call is made for."""


@dataclass(slots=True)
class CheckCounts:
    """A check's rows and lookups before any call is made.

    Rows are input rows. Lookups are answers that eligible rows need, distinct the calls that would
    answer them all. Reused, paid, free and unreadable ones are answered already (unreadable ones by
    this run or an earlier one); in_doubt ones are not asked again after calls in doubt.
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
        """Add another's counts of lookups; counts of rows are not added."""
        names = ("lookups", "distinct", "reused", "paid", "free", "unreadable", "in_doubt")
        for name in (*names, "saved_by_reuse_micro"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        known = (self.oldest_reused_at, other.oldest_reused_at)
        self.oldest_reused_at = min((at for at in known if at is not None), default=None)


class SeenCharges(NamedTuple):
    """The recent answers of one check and kind of identifier, and how many were charged."""

    answers: int = 0
    charged: int = 0


@dataclass(frozen=True, slots=True)
class CheckQuote:
    """One check's share of a quote; money in micro-naira, time in seconds."""

    check: str
    kind: str  # the kind of identifier it asks by
    calls: int  # the most lookups to be asked
    likely_calls: int  # lookups likely to be asked; some may be spared
    price_micro: int  # what a hit costs
    hit_pct: float  # share of calls expected to be charged, in percent
    low_micro: int
    expected_micro: int
    high_micro: int
    expected_s: float


class First(NamedTuple):
    """What the affordable lookups are for, in the order in which they are asked."""

    never_screened: int  # lookups of applicants and of customers never screened before
    overdue: int  # lookups of evidence that is too old
    least_exposure_kobo: int  # exposure of the last row reached, in kobo; -1 if unknown


@dataclass(frozen=True, slots=True)
class Quote:
    """A whole quote."""

    # one for each check and kind of identifier with lookups to be asked
    lines: tuple[CheckQuote, ...] = field(default_factory=tuple)
    cap_micro: int | None = None  # the run's cap, if any
    balance_micro: int | None = None  # the last balance in the journal
    # how many lookups cap and balance pay for at their maximum cost; None if neither is known
    affordable: int | None = None
    first: First | None = None  # what those are for; None if there are none
    rows_short: int = 0  # rows that would then lack an answer

    @property
    def calls(self) -> int:
        """Return how many lookups would be asked."""
        return sum(line.calls for line in self.lines)

    @property
    def low_micro(self) -> int:
        """Return the least the run is likely to cost."""
        return sum(line.low_micro for line in self.lines)

    @property
    def expected_micro(self) -> int:
        """Return the expected cost."""
        return sum(line.expected_micro for line in self.lines)

    @property
    def high_micro(self) -> int:
        """Return the most the run may cost, without resends of lost calls."""
        return sum(line.high_micro for line in self.lines)

    def in_naira(self, before_micro: int = 0) -> dict[str, str | None]:
        """Return the sums as decimal text, with the money already spent added."""
        sums = {"low": self.low_micro, "expected": self.expected_micro, "high": self.high_micro}
        return {name: naira_text(before_micro + micro) for name, micro in sums.items()}

    def line_documents(self) -> list[dict[str, Any]]:
        """Return the lines as they are printed; money is decimal text in naira."""
        return [
            {
                "check": each.check,
                "identity": each.kind,
                "calls": each.calls,
                "likely_calls": each.likely_calls,
                "price": naira_text(each.price_micro),
                "charged_pct": round(each.hit_pct, 2),
                "low": naira_text(each.low_micro),
                "expected": naira_text(each.expected_micro),
                "high": naira_text(each.high_micro),
                "hours": round(each.expected_s / 3600, 4),
            }
            for each in self.lines
        ]

    @property
    def hours(self) -> float:
        """Return the hours of the slowest check; checks run at the same time."""
        return max((line.expected_s for line in self.lines), default=0.0) / 3600
