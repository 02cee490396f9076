"""Is tonight plausible? Outcome rates compared with the median of the batch's earlier nights.

A night that looks like a fault of the service is held: nothing of it may be published until it was
looked at and released (`runs/release.py`). Pure functions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from nightscreen.checks.registry import CHECKS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nightscreen.journal import Journal

NIGHTS = 14
ENOUGH_LOOKUPS = 500
HELD = "held"
RELEASED = "released"
_LOW, _HIGH = 0.5, 2.0
_OUTCOME_OF = {"verified": "found", "mismatch": "found", "unconfirmed": "found"} | dict.fromkeys(
    ("match", "no_match", "unsure"), "scored"
)
"""The service's outcome where a row's status says more than it."""

_CHANCE = 3.0
"""Standard deviations by which a count must leave what was expected, so that few do not hold."""


def plausible(report: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each thing about a night that is not plausible.

    A check counts from 500 answers asked tonight on. Its outcome rates are compared with the median
    of the last fourteen publishable nights of the batch, over all their answered rows; rates
    outside half to twice the median hold the night, where neither chance nor the choice of
    customers explains the difference: customers who were clear before will mostly be clear again,
    and a night that asks only about them finds few listings. Answers that are all alike hold the
    night too, unless that was expected.

    Args:
        report: tonight's, as `report.json` has it.
        earlier: reports of the same batch name, newest first; tonight's own and those that may not
            be published are left out.
    """
    baseline = [
        night for night in earlier if night["publishable"] and night["run_id"] != report["run_id"]
    ][:NIGHTS]
    found: list[str] = []
    for name, part in report["checks"].items():
        check = name
        tonight = _counts(part.get("asked_answers", part.get("answers", {})), check)
        if sum(tonight.values()) < ENOUGH_LOOKUPS:
            continue
        nights = [rates for night in baseline if (rates := _rates(night, check)) is not None]
        usual = (
            {word: median(night[word] for night in nights) for word in tonight} if nights else {}
        )
        sample = _Sample(check, tonight, usual, part.get("asked_again", {}), len(nights))
        found += sample.alike()
        found += sample.outside()
    return found


def _counts(answers: Mapping[str, int], check: str) -> dict[str, int]:
    return {word: answers.get(word, 0) for word in CHECKS[check].answered}


def _rates(report: Mapping[str, Any], check: str) -> dict[str, float] | None:
    """Return the share of each outcome among a night's answered rows; None if they are few."""
    counts = _counts(report["checks"].get(check, {}).get("answers", {}), check)
    answered = sum(counts.values())
    if answered < ENOUGH_LOOKUPS:
        return None
    return {word: number / answered for word, number in counts.items()}


@dataclass(frozen=True, slots=True)
class _Sample:
    """One check's answers of tonight, and what was to be expected of those who were asked."""

    check: str
    tonight: Mapping[str, int]  # answers asked tonight, by status
    usual: Mapping[str, float]  # the usual share of each status; empty on a first night
    again: Mapping[str, int]  # of those asked, how many had which outcome before
    nights: int  # how many nights the usual is the median of

    @property
    def answered(self) -> int:
        """Return how many answers there are."""
        return sum(self.tonight.values())

    def _before(self, word: str) -> tuple[int, int]:
        """Return the least and the most that had this status before."""
        outcome = _OUTCOME_OF.get(word, word)
        number = min(self.again.get(outcome, 0), self.answered)
        alone = sum(_OUTCOME_OF.get(status, status) == outcome for status in self.tonight) == 1
        return (number if alone else 0), number

    def _expected(self, word: str) -> tuple[float, float]:
        """Return the least and the most answers of a status to be expected."""
        first = max(0, self.answered - sum(self.again.values()))
        least, most = self._before(word)
        of_all = self.usual[word] * self.answered
        of_first = self.usual[word] * first
        return min(of_all, of_first + least), max(of_all, of_first + most)

    def alike(self) -> list[str]:
        """Return a sentence where every answer is the same, and others were to be expected."""
        word = next(
            (status for status, count in self.tonight.items() if count == self.answered), None
        )
        if word is None:
            return []
        others = self.answered - self._expected(word)[1] if self.usual else float(self.answered)
        if others <= _CHANCE**2:  # so few may be missing by chance
            return []
        return [f"{_title(self.check)}: every answer is {_in_words(word)}"]

    def outside(self) -> list[str]:
        """Return a sentence for each status that came far too seldom or too often."""
        found = []
        for word in self.usual:
            count = self.tonight[word]
            least, most = self._expected(word)
            if _LOW * least <= count <= _HIGH * most:
                continue
            nearest = least if count < least else most
            if abs(count - nearest) > _CHANCE * math.sqrt(max(nearest, 1.0)):
                over = f"the last {self.nights} nights" if self.nights > 1 else "the last night"
                found.append(
                    f"{_title(self.check)}: {count / self.answered:.2%} {_in_words(word)}, against "
                    f"a median of {self.usual[word]:.2%} over {over}"
                )
        return found


def _title(check: str) -> str:
    return check.replace("_", " ").capitalize()


def _in_words(word: str) -> str:
    return word.replace("_", " ")


def earlier_reports(journal: Journal, batch: str, run_id: str) -> list[dict[str, Any]]:
    """Return the reports of a batch's finished runs, newest first, one run's own left out."""
    runs = journal.runs.newest(batch=batch, limit=4 * NIGHTS)
    return [run.report for run in runs if run.report is not None and run.run_id != run_id]


def hold(report: dict[str, Any], reasons: Sequence[str]) -> dict[str, Any]:
    """Return the report, not to be published where there are reasons to hold it."""
    if not reasons:
        return report
    return {**report, "publishable": False, HELD: list(reasons)}
