"""A quote: naira and hours a plan would take, before anything is spent.

Estimating it belongs to `planning/price.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

_NINE_IN_TEN = 1.645
"""Standard deviations on each side of the middle of a normal distribution that hold 90 percent."""


@dataclass(frozen=True, slots=True)
class CheckQuote:
    """One check's share of a quote; money in micro-naira, time in seconds.

    Attributes:
        check: the check.
        kind: the identity it is asked by.
        calls: lookups to be asked at most.
        likely_calls: those likely to be asked, where some may be spared.
        price_micro: what a hit costs.
        hit_pct: share of calls expected to be charged, in percent.
        spread_micro: standard deviation of its cost from night to night; None until a night has
            shown how many lookups are charged.
    """

    check: str
    kind: str
    calls: int
    likely_calls: int
    price_micro: int
    hit_pct: float
    low_micro: int
    expected_micro: int
    high_micro: int
    expected_s: float
    spread_micro: int | None = None


@dataclass(frozen=True, slots=True)
class First:
    """What the affordable lookups are for, in the order in which they are asked.

    Attributes:
        never_screened: lookups of applicants and of customers never screened before.
        overdue: lookups of evidence that has grown old.
        least_exposure_kobo: naira at risk of the last row reached, in kobo; -1 where unknown.
    """

    never_screened: int
    overdue: int
    least_exposure_kobo: int


@dataclass(frozen=True, slots=True)
class Quote:
    """A whole quote.

    Attributes:
        lines: one for each check and identity with lookups to be asked.
        cap_micro: the cap the run would be under, if any.
        balance_micro: the last balance the journal knows of.
        affordable: how many lookups the cap and the known balance pay for at their worst cost;
            None if neither is known.
        rows_short: rows that would lack an answer then.
        first: what
            the money pays for first.
        short_by_cap: for rising amounts, in micro-naira, how many
            rows would lack an answer; empty if the run needs no approval.
    """

    lines: tuple[CheckQuote, ...] = field(default_factory=tuple)
    cap_micro: int | None = None
    balance_micro: int | None = None
    affordable: int | None = None
    rows_short: int = 0
    first: First | None = None
    short_by_cap: tuple[tuple[int, int], ...] = ()

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

    @property
    def likely_micro(self) -> tuple[int, int] | None:
        """Return the range that contains nine nights in ten; None before enough was seen.

        Checks differ from what is expected of them independently of each other, so that their
        variances add up.
        """
        spreads = [line.spread_micro for line in self.lines]
        if any(spread is None for spread in spreads):
            return None
        around = round(_NINE_IN_TEN * math.sqrt(sum((spread or 0) ** 2 for spread in spreads)))
        middle = self.expected_micro
        return max(self.low_micro, middle - around), min(self.high_micro, middle + around)

    @property
    def hours(self) -> float:
        """Return the hours of the slowest check; checks run side by side."""
        return max((line.expected_s for line in self.lines), default=0.0) / 3600
