"""How old an answer may be: by purpose, check and outcome, from the settings."""

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
"""How often a lookup is sent whose response came, cannot be read and does not state its cost: once
more, since it may have been one bad moment, and not again before its age is over."""
NEVER_FRESH = 2**63 - 1
"""Later than any instant: the limit is nothing, so that no age is young enough."""


def is_closed(doubts: int, unread: int, attempts: int) -> bool:
    """Return whether a lookup is left alone until its calls in doubt are old enough.

    Args:
        doubts: its calls in doubt, within their age.
        unread: those of them whose response came and could not be read, within theirs.
        attempts: attempts a lookup.
    """
    return doubts >= attempts or unread >= min(UNREAD_SENDS, attempts)


@dataclass(frozen=True, slots=True)
class Freshness:
    """Judges answers at one instant.

    Only for answers from before the plan: an answer to the run's own call, or a later one, counts
    at any age (`journal.answers.StoredAnswer.current`).
    """

    # how old an answer may be, by check and outcome (`config.settings.max_ages`)
    ages: Mapping[tuple[str, str], timedelta]
    at: int  # the instant, in microseconds since 1970
    since: int = 0  # the place the journal had come to by then
    cash_flow: timedelta = timedelta(0)  # how old figures of cash flow may be

    def oldest(self, check: str, word: str) -> int:
        """Return the earliest instant at which an answer of this outcome is still fresh."""
        age = self.ages.get((check, word))
        return self.at - age // _MICROS if age else NEVER_FRESH

    def oldest_cash_flow(self) -> int:
        """Return the earliest instant at which figures of cash flow are still fresh."""
        return self.at - self.cash_flow // _MICROS if self.cash_flow else NEVER_FRESH

    def doubts_since(self, check: str) -> Since:
        """Return from when on calls in doubt count."""
        unread = self.oldest(check, Outcome.UNREADABLE.value)
        return Since(max(unread, self.at - IN_DOUBT_AGE // _MICROS), unread, self.at)

    def limits(self, check: str) -> pa.Table:
        """Return for each outcome from when on an answer is fresh, as `plan.sql` compares it."""
        return pa.table(
            {
                "outcome": pa.array(range(len(Outcome)), pa.int8()),
                "fresh_from": [self.oldest(check, outcome.value) for outcome in Outcome],
                "is_read": [outcome is not Outcome.UNREADABLE for outcome in Outcome],
                "is_listing": [outcome is Outcome.LISTED for outcome in Outcome],
            }
        )
