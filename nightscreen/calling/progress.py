"""Progress of a run: the numbers of each check while lookups are asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nightscreen.schemas.calls import LookupStatus

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(slots=True)
class CheckProgress:
    """One check's numbers while it runs; `wanted` is all lookups it was to ask."""

    wanted: int = 0
    paid: int = 0
    free: int = 0
    reused: int = 0
    unreadable: int = 0
    failed: int = 0
    in_doubt: int = 0
    lapsed: int = 0
    spared: int = 0
    attempts: int = 0
    cost_micro: int = 0
    cap: int = 0
    in_flight: int = 0

    @property
    def done(self) -> int:
        """Return how many lookups came to an end."""
        asked = self.paid + self.free + self.reused + self.failed + self.in_doubt
        return asked + self.unreadable + self.lapsed + self.spared

    def count(self, status: LookupStatus, cost_micro: int) -> None:
        """Count a lookup that came to an end."""
        self.cost_micro += cost_micro
        name = status.name.lower()
        setattr(self, name, getattr(self, name) + 1)

    def take_back(self, statuses: Iterable[LookupStatus]) -> None:
        """Count lookups as not ended that failed or were lost: they are asked again."""
        for status in statuses:
            self.failed -= status is LookupStatus.FAILED
            self.in_doubt -= status is LookupStatus.IN_DOUBT
