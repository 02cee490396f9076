"""Alarms: a person is woken for what needs one now, once, and for nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from nightscreen.ops.vitals import Alarm, Alarms
from nightscreen.schemas.stops import StopReason
from tests.ops.signs import MINUTE, signs_in_a_test

WAKING: list[tuple[Alarm, dict[str, Any]]] = [
    (Alarm.AUTH, {"stop": "auth"}),
    (Alarm.TEST_MODE, {"stop": "test_mode"}),
    (Alarm.OUTAGE, {"silent_since": 84 * MINUTE}),
    (Alarm.DEADLINE, {"finish_at": 501 * MINUTE}),
    (Alarm.DEADLINE, {"stop": "deadline"}),
    (Alarm.DISK, {"disk_free": {"home": 10**11, "output": 10**8}}),
]


@pytest.mark.parametrize(("alarm", "changes"), WAKING)
def test_what_needs_a_person_now_is_told_once(alarm: Alarm, changes: dict[str, Any]) -> None:
    """The same signs two seconds later wake nobody again."""
    alarms = Alarms()
    assert alarms.due(signs_in_a_test()) == []
    assert alarms.due(signs_in_a_test(**changes)) == [alarm]
    assert alarms.due(signs_in_a_test(**changes)) == []


def test_one_refused_check_is_enough() -> None:
    """The others go on, but nobody may sleep until the key is mended."""
    signs = signs_in_a_test()
    signs["checks"]["karma"]["stopped"] = "auth"
    assert Alarms().due(signs) == [Alarm.AUTH]


@pytest.mark.parametrize(
    "stop", [each.value for each in StopReason if each not in {"auth", "deadline"}]
)
def test_other_stops_wait_for_the_morning(stop: str) -> None:
    """A budget, a wallet, a quota: nothing is lost by morning."""
    assert Alarms().due(signs_in_a_test(stop=stop)) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"silent_since": 86 * MINUTE},
        {"finish_at": 499 * MINUTE},
        {"finish_at": 501 * MINUTE, "pace_s": 200.0},
        {"finish_at": None},
        {"deadline_at": None, "finish_at": 10**6 * MINUTE},
        {"disk_free": {"home": None, "output": 10**10}},
    ],
)
def test_what_is_not_sure_or_not_bad_wakes_nobody(changes: dict[str, Any]) -> None:
    """A short silence, a pace measured too briefly, an end unknown."""
    assert Alarms().due(signs_in_a_test(**changes)) == []


def test_a_second_outage_is_told_again() -> None:
    """The first one ended in between."""
    alarms, silent = Alarms(), {"silent_since": 10 * MINUTE}
    assert alarms.due(signs_in_a_test(**silent)) == [Alarm.OUTAGE]
    assert alarms.due(signs_in_a_test()) == []
    assert alarms.due(signs_in_a_test(**silent)) == [Alarm.OUTAGE]
