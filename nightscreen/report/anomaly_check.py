"""Is tonight plausible? Outcome rates compared with the median of the batch's earlier nights.

A night that looks like a fault of the service is held: nothing of it may be published until it was
looked at and released (`runs/release.py`). Pure functions.
"""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING, Any

from nightscreen.checks.registry import CHECKS
from nightscreen.report.format import plain, sentence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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


def find_anomalies(report: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]]) -> list[str]:
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
    for check, part in report["checks"].items():
        tonight = _counts(part.get("asked_answers", part.get("answers", {})), check)
        if sum(tonight.values()) < ENOUGH_LOOKUPS:
            continue
        nights = [rates for night in baseline if (rates := _rates(night, check)) is not None]
        usual = {word: median(each[word] for each in nights) for word in tonight if nights}
        again = part.get("asked_again", {})
        expected = {word: _expected(word, tonight, share, again) for word, share in usual.items()}
        found += _alike(check, tonight, expected)
        found += _outside(check, tonight, expected, usual, len(nights))
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


def _expected(
    word: str, tonight: Mapping[str, int], usual: float, again: Mapping[str, int]
) -> tuple[float, float]:
    """Return the least and the most answers of a status to be expected.

    Who is asked for the first time answers as usual, who is asked again mostly as before: `again`
    has the outcomes that those had, one of which may stand for several statuses.
    """
    answered = sum(tonight.values())
    outcome = _OUTCOME_OF.get(word, word)
    before = min(again.get(outcome, 0), answered)
    alone = sum(_OUTCOME_OF.get(status, status) == outcome for status in tonight) == 1
    of_first = usual * max(0, answered - sum(again.values()))
    of_all = usual * answered
    return min(of_all, of_first + before * alone), max(of_all, of_first + before)


def _alike(
    check: str, tonight: Mapping[str, int], expected: Mapping[str, tuple[float, float]]
) -> Iterator[str]:
    """Yield a sentence where every answer is the same, and others were to be expected."""
    answered = sum(tonight.values())
    for word, count in tonight.items():
        others = answered - expected.get(word, (0, 0))[1]
        if count == answered and others > _CHANCE**2:  # fewer may be missing by chance
            yield f"{sentence(check)}: every answer is {plain(word)}"


def _outside(
    check: str,
    tonight: Mapping[str, int],
    expected: Mapping[str, tuple[float, float]],
    usual: Mapping[str, float],
    nights: int,
) -> Iterator[str]:
    """Yield a sentence for each status that came far too seldom or too often."""
    over = f"the last {nights} nights" if nights > 1 else "the last night"
    for word, (least, most) in expected.items():
        count = tonight[word]
        nearest = least if count < least else most
        by_chance = abs(count - nearest) <= _CHANCE * math.sqrt(max(nearest, 1.0))
        if _LOW * least <= count <= _HIGH * most or by_chance:
            continue
        yield (
            f"{sentence(check)}: {count / sum(tonight.values()):.2%} {plain(word)}, against "
            f"a median of {usual[word]:.2%} over {over}"
        )


def earlier_reports(journal: Journal, batch: str, run_id: str) -> list[dict[str, Any]]:
    """Return the reports of a batch's finished runs, newest first, one run's own left out."""
    runs = journal.runs.newest(batch=batch, limit=4 * NIGHTS)
    return [run.report for run in runs if run.report is not None and run.run_id != run_id]


def hold(report: dict[str, Any], reasons: Sequence[str]) -> dict[str, Any]:
    """Return the report, not to be published where there are reasons to hold it."""
    if not reasons:
        return report
    return {**report, "publishable": False, HELD: list(reasons)}
