"""Plausibility: a night unlike its fellows is held, and released only by somebody with a reason."""

from __future__ import annotations

from typing import Any

import pytest

from nightscreen.report.anomaly_check import find_anomalies


def report(run_id: str, *, publishable: bool = True, **karma: int) -> dict[str, Any]:
    """Return what matters of a report: one check and its answers."""
    checks = {"karma": {"answers": {"ineligible": 3, **karma}}}
    return {"run_id": run_id, "publishable": publishable, "checks": checks, "state": "completed"}


USUAL = [report(f"run-{n}", clear=4750, listed=250) for n in range(14)]
ALIKE = [report(f"run-{n}", clear=900) for n in range(3)]
RARE = [report(f"run-{n}", clear=499, listed=1) for n in range(14)]
FAULTY = [report(f"bad-{n}", publishable=False, clear=100, listed=4900) for n in range(20)]
NIGHTS: dict[str, tuple[dict[str, int], dict[str, int] | None, list[dict[str, Any]], int]] = {
    "a usual night": ({"clear": 4600, "listed": 400}, None, USUAL, 0),
    "a little above half the median": ({"clear": 4860, "listed": 140}, None, USUAL, 0),
    "below half the median": ({"clear": 4900, "listed": 100}, None, USUAL, 1),
    "above twice the median": ({"clear": 4400, "listed": 600}, None, USUAL, 1),
    "all alike on the first night": ({"clear": 500}, None, [], 1),
    "few answers, all alike": ({"clear": 499}, None, [], 0),
    "not all alike on the first night": ({"clear": 900, "listed": 20}, None, [], 0),
    "alike as ever": ({"clear": 900}, None, ALIKE, 0),
    "three listings where one was expected": ({"clear": 497, "listed": 3}, None, RARE, 0),
    "held nights are no measure": ({"clear": 100, "listed": 4900}, None, [*FAULTY, *USUAL], 2),
    "nights without answers are no measure": (
        *({"clear": 4600, "listed": 400}, None),
        *([report("empty", clear=0, listed=0), *USUAL], 0),
    ),
    # who was clear before will mostly be clear again; too many listings hold all the same
    "only the clear asked again": ({"clear": 4990, "listed": 10}, {"clear": 5000}, USUAL, 0),
    "only the clear, all alike": ({"clear": 5000, "listed": 0}, {"clear": 5000}, USUAL, 0),
    "only the clear, many listed": ({"clear": 4400, "listed": 600}, {"clear": 5000}, USUAL, 1),
    # a night on which only listings grew old is no fault of the service
    "only the listed asked again": ({"clear": 20, "listed": 980}, {"listed": 1000}, USUAL, 0),
    "only the listed, all clear": ({"clear": 1000, "listed": 0}, {"listed": 1000}, USUAL, 2),
    # of those never asked before the usual share is expected
    "half asked again": ({"clear": 4870, "listed": 130}, {"clear": 2500}, USUAL, 0),
    "half asked again, none listed": ({"clear": 4990, "listed": 10}, {"clear": 2500}, USUAL, 1),
}
"""Tonight's answers, what those asked again had been before, earlier nights, and how many hold."""


@pytest.mark.parametrize("night", NIGHTS)
def test_a_night_unlike_its_fellows_is_held(night: str) -> None:
    """Beyond half and twice the median rate, or all alike, by more than chance."""
    answers, again, earlier, holding = NIGHTS[night]
    tonight = report("t")
    tonight["checks"]["karma"]["answers"] |= answers
    if again is not None:
        tonight["checks"]["karma"]["asked_again"] = again
    assert len(find_anomalies(tonight, [tonight, *earlier])) == holding


def test_what_holds_a_night_is_told_with_check_rate_and_median() -> None:
    assert find_anomalies(report("t", clear=4900, listed=100), USUAL) == [
        "Karma: 2.00% listed, against a median of 5.00% over the last 14 nights"
    ]
    assert find_anomalies(report("t", clear=5000, listed=0), USUAL) == [
        "Karma: every answer is clear",
        "Karma: 0.00% listed, against a median of 5.00% over the last 14 nights",
    ]
