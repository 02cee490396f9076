"""Strained results of all results, and what chance makes of such a share. No rule of the cap."""

from __future__ import annotations

import math
from dataclasses import dataclass

CLEARLY = 1.8
"""Standard errors between two rates that are taken to differ."""


@dataclass(slots=True)
class Tally:
    """Strained results of all results."""

    results: float = 0.0
    strained: float = 0.0

    def add(self, *, strain: bool) -> None:
        """Count one result."""
        self.results += 1
        self.strained += strain

    def take(self, other: Tally) -> None:
        """Count what another counted."""
        self.results += other.results
        self.strained += other.strained

    def fade(self, share: float) -> None:
        """Keep a share of what was counted."""
        self.results *= share
        self.strained *= share

    def rate(self) -> float:
        """Return the share of strained results."""
        return self.strained / self.results if self.results else 0.0

    def at_least(self) -> float:
        """Return the share of strained results, less what may be chance."""
        return max(0.001, (self.strained - math.sqrt(self.strained)) / self.results)

    def at_most(self) -> float:
        """Return the share of strained results, and what may be chance."""
        return (self.strained + 2 + 2 * math.sqrt(self.strained + 1)) / (self.results + 4)

    def exceeds(self, other: Tally) -> bool:
        """Return whether this rate is clearly higher than another."""
        if not self.results or not other.results:
            return False
        pooled = (self.strained + other.strained + 0.5) / (self.results + other.results + 1)
        error = math.sqrt(pooled * (1 - pooled) * (1 / self.results + 1 / other.results))
        return self.rate() - other.rate() > CLEARLY * error
