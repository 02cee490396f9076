"""Anomaly check: compare a run's outcome rates with the median of the batch's earlier runs.

A run that looks like a fault of the service is held: it may not be published until a person has
checked and released it (`runs/open_cases.py`). Pure functions.
"""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING, Any

from nightscreen.checks.registry import CHECKS
from nightscreen.config.parameters import SCREEN_FLOW
from nightscreen.report.format import plain, sentence

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
"""The service's outcome behind a row's status, if the two differ."""

_CHANCE = 3.0
"""Standard deviations by which a count must differ from the expected one, so that a small
difference does not hold a run."""


def find_anomalies(report: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each anomaly of a run.

    A check counts if the run made at least 500 lookups. Its outcome rates are compared with the
    median of the batch's last fourteen publishable runs, over all their answered rows. A rate below
    half or above twice the median holds the run, unless chance or the choice of customers explains
    it: customers who were clear before are mostly clear again, so a run that asks only about them
    finds few listings. Identical answers for all rows hold the run too, unless they were expected.

    Args:
        report: the run's report, as in `report.json`.
        earlier: reports of the same batch, newest first; the run's own and unpublishable ones are
            ignored.
    """
    baseline = [
        night for night in earlier if night["publishable"] and night["run_id"] != report["run_id"]
    ][:NIGHTS]
    sentences: list[str] = []
    for check, part in report["checks"].items():
        current = _counts(part.get("asked_answers", part.get("answers", {})), check)
        if sum(current.values()) >= ENOUGH_LOOKUPS:
            nights = [rates for night in baseline if (rates := _rates(night, check)) is not None]
            sentences += _of_check(check, current, nights, part.get("asked_again", {}))
    return sentences


def _counts(answers: Mapping[str, int], check: str) -> dict[str, int]:
    return {word: answers.get(word, 0) for word in CHECKS[check].answered}


def _rates(report: Mapping[str, Any], check: str) -> dict[str, float] | None:
    """Return the share of each outcome among a night's answered rows; None if they are few."""
    counts = _counts(report["checks"].get(check, {}).get("answers", {}), check)
    answered = sum(counts.values())
    if answered < ENOUGH_LOOKUPS:
        return None
    return {word: number / answered for word, number in counts.items()}


def _of_check(
    check: str,
    current: Mapping[str, int],
    nights: Sequence[Mapping[str, float]],
    repeated: Mapping[str, int],
) -> list[str]:
    """Return a sentence if only one status came, then one for each far too rare or too frequent.

    New customers are expected to answer at the usual rate, repeated ones mostly as before.
    `repeated` has the earlier outcomes of the latter; one outcome may cover several statuses.
    """
    answered, alike, outside = sum(current.values()), list[str](), list[str]()
    over = f"the last {len(nights)} nights" if len(nights) > 1 else "the last night"
    for word, count in current.items():
        usual = median(each[word] for each in nights) if nights else 0.0
        outcome = _OUTCOME_OF.get(word, word)
        before = min(repeated.get(outcome, 0), answered)
        only_status = sum(_OUTCOME_OF.get(status, status) == outcome for status in current) == 1
        of_first = usual * max(0, answered - sum(repeated.values()))
        of_all = usual * answered
        least, most = min(of_all, of_first + before * only_status), max(of_all, of_first + before)
        others = answered - most if nights else answered
        if count == answered and others > _CHANCE**2:  # fewer may be missing by chance
            alike.append(f"{sentence(check)}: every answer is {plain(word)}")
        nearest = least if count < least else most
        by_chance = abs(count - nearest) <= _CHANCE * math.sqrt(max(nearest, 1.0))
        if nights and not (_LOW * least <= count <= _HIGH * most or by_chance):
            outside.append(
                f"{sentence(check)}: {count / answered:.2%} {plain(word)}, against a median of "
                f"{usual:.2%} over {over}"
            )
    return alike + outside


def earlier_reports(journal: Journal, batch: str, run_id: str) -> list[dict[str, Any]]:
    """Return the reports of a batch's finished screenings except `run_id`, newest first."""
    runs = journal.runs.newest(batch=batch, flow=SCREEN_FLOW, limit=4 * NIGHTS)
    return [run.report for run in runs if run.report is not None and run.run_id != run_id]


def hold(report: dict[str, Any], reasons: Sequence[str]) -> dict[str, Any]:
    """Return the report, marked as held and unpublishable if there are reasons."""
    if not reasons:
        return report
    return {**report, "publishable": False, HELD: list(reasons)}
