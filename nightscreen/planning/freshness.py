"""Freshness: how old an answer may be, by purpose, check and outcome, from the settings."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa

from nightscreen.config.settings import IN_DOUBT_AGE
from nightscreen.journal.answers import Since
from nightscreen.schemas.checks import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

_MICROS = timedelta(microseconds=1)
UNREAD_SENDS = 2
"""How often a lookup is sent if its response cannot be read and does not state its cost: once more,
since the fault may be temporary, and then not before its age is over."""
NEVER_FRESH = 2**63 - 1
"""Later than any instant, for an age of zero: no answer is fresh."""


def is_closed(doubts: int, unread: int, attempts: int) -> bool:
    """Return whether a lookup is not asked until its calls in doubt are old enough.

    Args:
        doubts: its calls in doubt that are not old enough.
        unread: those of them whose response could not be read, and that are not old enough.
        attempts: the most attempts for a lookup.
    """
    return doubts >= attempts or unread >= min(UNREAD_SENDS, attempts)


@dataclass(frozen=True, slots=True)
class Freshness:
    """Judges the age of answers at one instant.

    It applies to answers from before the plan: an answer to the run's own call, or a later one,
    counts at any age (`journal.answers.StoredAnswer.current`).
    """

    # how old an answer may be, by check and outcome (`config.settings.max_ages`)
    ages: Mapping[tuple[str, str], timedelta]
    at: int  # the instant, in microseconds since 1970
    since: int = 0  # the journal's position at that instant
    cash_flow: timedelta = timedelta(0)  # how old cash flow may be

    def oldest(self, check: str, outcome: str) -> int:
        """Return the earliest instant at which an answer of this outcome is still fresh."""
        age = self.ages.get((check, outcome))
        return self.at - age // _MICROS if age else NEVER_FRESH

    def oldest_cash_flow(self) -> int:
        """Return the earliest instant at which cash flow is still fresh."""
        return self.at - self.cash_flow // _MICROS if self.cash_flow else NEVER_FRESH

    def doubts_since(self, check: str) -> Since:
        """Return the instants from which calls in doubt count."""
        unread = self.oldest(check, Outcome.UNREADABLE.value)
        return Since(max(unread, self.at - IN_DOUBT_AGE // _MICROS), unread, self.at)

    def limits(self, check: str) -> pa.Table:
        """Return the instant from which answers of each outcome are fresh, for `plan.sql`."""
        return pa.table(
            {
                "outcome": pa.array(range(len(Outcome)), pa.int8()),
                "fresh_from": [self.oldest(check, outcome.value) for outcome in Outcome],
                "is_read": [outcome is not Outcome.UNREADABLE for outcome in Outcome],
                "is_listing": [outcome is Outcome.LISTED for outcome in Outcome],
            }
        )
