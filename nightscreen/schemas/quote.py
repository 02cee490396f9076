"""A quote: naira and hours a plan would take, before anything is spent.

Estimating it belongs to `planning/price.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from nightscreen.schemas.money import naira_text


@dataclass(frozen=True, slots=True)
class CheckQuote:
    """One check's share of a quote; money in micro-naira, time in seconds."""

    check: str
    kind: str  # the identity it is asked by
    calls: int  # lookups to be asked at most
    likely_calls: int  # those likely to be asked, where some may be spared
    price_micro: int  # what a hit costs
    hit_pct: float  # share of calls expected to be charged, in percent
    low_micro: int
    expected_micro: int
    high_micro: int
    expected_s: float


@dataclass(frozen=True, slots=True)
class First:
    """What the affordable lookups are for, in the order in which they are asked."""

    never_screened: int  # lookups of applicants and of customers never screened before
    overdue: int  # lookups of evidence that has grown old
    least_exposure_kobo: int  # naira at risk of the last row reached, in kobo; -1 where unknown


@dataclass(frozen=True, slots=True)
class Quote:
    """A whole quote."""

    # one for each check and identity with lookups to be asked
    lines: tuple[CheckQuote, ...] = field(default_factory=tuple)
    cap_micro: int | None = None  # the cap the run would be under, if any
    balance_micro: int | None = None  # the last balance the journal knows of
    # how many lookups the cap and the known balance pay for at their worst cost; None if neither is
    # known
    affordable: int | None = None
    rows_short: int = 0  # rows that would lack an answer then
    first: First | None = None  # what the money pays for first

    @property
    def calls(self) -> int:
        """Return how many lookups would be asked."""
        return sum(line.calls for line in self.lines)

    @property
    def low_micro(self) -> int:
        """Return the least it is likely to cost."""
        return sum(line.low_micro for line in self.lines)

    @property
    def expected_micro(self) -> int:
        """Return what it is expected to cost."""
        return sum(line.expected_micro for line in self.lines)

    @property
    def high_micro(self) -> int:
        """Return the most it may cost, not counting resends of lost calls."""
        return sum(line.high_micro for line in self.lines)

    def in_naira(self, before_micro: int = 0) -> dict[str, str | None]:
        """Return it as decimal text, beside what was spent before."""
        sums = {"low": self.low_micro, "expected": self.expected_micro, "high": self.high_micro}
        return {word: naira_text(before_micro + micro) for word, micro in sums.items()}

    @property
    def hours(self) -> float:
        """Return the hours of the slowest check; checks run side by side."""
        return max((line.expected_s for line in self.lines), default=0.0) / 3600
