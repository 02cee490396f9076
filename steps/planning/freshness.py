"""How old an answer may be: by purpose, check and outcome, from the settings."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np

from nightscreen.schemas.checks import Check, Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_MICROS = timedelta(microseconds=1)
VERIFIED = "verified"
MISMATCH = "mismatch"
AGES_AS = {VERIFIED: VERIFIED, "unconfirmed": VERIFIED, MISMATCH: MISMATCH}
"""The age limit of an account that exists, by the status it gives a row."""
NEVER_FRESH = np.iinfo(np.int64).max
"""Later than any instant: the limit is nothing, so that no age is young enough."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """Judges answers at one instant.

    Only for answers from before the plan: an answer to the run's own call, or a later one, counts
    at any age (`storage.journal.answers.Latest.current`).

    Attributes:
        ages: how old an answer may be, by check and outcome (`schemas.settings.max_ages`).
        at: the instant, in microseconds since 1970.
        since: the place the journal had come to by then.
        cash_flow: how old figures of cash flow may be.
    """

    ages: Mapping[tuple[Check, str], timedelta]
    at: int
    since: int = 0
    cash_flow: timedelta = timedelta(0)

    def oldest(self, check: Check, word: str) -> int:
        """Return the earliest instant at which an answer of this outcome is still fresh."""
        age = self.ages.get((check, word))
        return self.at - age // _MICROS if age else NEVER_FRESH

    def oldest_cash_flow(self) -> int:
        """Return the earliest instant at which figures of cash flow are still fresh."""
        return self.at - self.cash_flow // _MICROS if self.cash_flow else NEVER_FRESH

    def oldest_accounts(self) -> dict[str, int]:
        """Return the same for each status of a bank account that exists."""
        return {status: self.oldest(Check.BANK_ACCOUNT, word) for status, word in AGES_AS.items()}

    def fresh(
        self, check: Check, outcome: str, answered_at: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return whether answers of one outcome are fresh, whatever the row says to them.

        A bank account that exists is fresh for sure only within the shorter of the two ages; see
        `banded` for those whose age depends on the row.
        """
        return answered_at >= max(self.oldest(check, word) for word in self._words(check, outcome))

    def banded(
        self, check: Check, outcome: str, answered_at: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return whether freshness depends on the row: on one limit it is fresh, on another not."""
        instants = [self.oldest(check, word) for word in self._words(check, outcome)]
        return (answered_at >= min(instants)) & (answered_at < max(instants))

    def age_share(
        self, check: Check, outcome: str, answered_at: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return answers' ages as a share of how old they may be; above 1 none is fresh."""
        limit = self.at - max(self.oldest(check, word) for word in self._words(check, outcome))
        age = np.maximum(0, self.at - answered_at)
        return age / limit if limit > 0 else np.where(age > 0, np.inf, 0.0)

    def _words(self, check: Check, outcome: str) -> tuple[str, ...]:
        if check is Check.BANK_ACCOUNT and outcome == Outcome.FOUND.value:
            return VERIFIED, MISMATCH
        return (outcome,)
