"""Alarms: a person is woken for what needs one now, once, and for nothing else."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from prefect.context import FlowRunContext

from nightscreen.ops.vitals import Alarm, Alarms
from nightscreen.schemas.errors import InputError, NightscreenError
from nightscreen.schemas.stops import StopReason
from nightscreen.tasks import monitoring
from tests.ops.signs import MINUTE, signs_in_a_test

WAKING: list[tuple[Alarm, dict[str, Any]]] = [
    (Alarm.AUTH, {"stop": "auth"}),
    (Alarm.TEST_MODE, {"stop": "test_mode"}),
    (Alarm.OUTAGE, {"silent_since": 84 * MINUTE}),
    (Alarm.DEADLINE, {"finish_at": 501 * MINUTE}),
    (Alarm.DEADLINE, {"stop": "deadline"}),
    (Alarm.DISK, {"disk_free": {"home": 10**11, "output": 10**8}}),
]


QUIET: list[dict[str, Any]] = [
    {"silent_since": 86 * MINUTE},
    {"finish_at": 499 * MINUTE},
    {"finish_at": 501 * MINUTE, "pace_s": 200.0},
    {"finish_at": None},
    {"deadline_at": None, "finish_at": 10**6 * MINUTE},
    {"disk_free": {"home": None, "output": 10**10}},
    *({"stop": each.value} for each in StopReason if each not in {"auth", "deadline"}),
]
"""A short silence, a pace measured too briefly, an end unknown; stops that wait for the morning."""


def test_what_needs_a_person_now_is_told_once_and_the_rest_wakes_nobody() -> None:
    """The same signs two seconds later wake nobody again; one refused check is enough.

    A second outage is told again where the first one ended in between.
    """
    for alarm, changes in WAKING:
        alarms = Alarms()
        assert alarms.due(signs_in_a_test()) == []
        assert alarms.due(signs_in_a_test(**changes)) == [alarm]
        assert alarms.due(signs_in_a_test(**changes)) == []
    signs = signs_in_a_test()
    signs["checks"]["karma"]["stopped"] = "auth"
    assert Alarms().due(signs) == [Alarm.AUTH]
    for changes in QUIET:
        assert Alarms().due(signs_in_a_test(**changes)) == [], changes
    alarms, silent = Alarms(), {"silent_since": 10 * MINUTE}
    for changes, due in ((silent, [Alarm.OUTAGE]), ({}, []), (silent, [Alarm.OUTAGE])):
        assert alarms.due(signs_in_a_test(**changes)) == due


def test_only_a_scheduled_run_that_cannot_open_wakes_a_person(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once it is open, its stop is in its own report; what somebody started is seen at once."""
    pages: list[tuple[str, dict[str, str]]] = []

    def emit(event: str, _about: object, *, payload: dict[str, str], **_: object) -> None:
        pages.append((event, payload))

    def fail(error: Exception, *, scheduled: bool = True, has_begun: bool = False) -> None:
        flow_run = SimpleNamespace(flow_run=SimpleNamespace(auto_scheduled=scheduled))
        monkeypatch.setattr(FlowRunContext, "get", lambda: flow_run)
        started = monitoring.paging_false_starts("portfolio-*", "run-1", lambda: has_begun)
        with suppress(NightscreenError), started:
            raise error

    monkeypatch.setattr(monitoring, "emit_event", emit)
    fail(InputError("/home/ada: no such file"), scheduled=False)
    fail(InputError("/home/ada: no such file"), has_begun=True)
    assert pages == []
    fail(InputError("/home/ada: no such file"))
    ((event, payload),) = pages
    assert event == "nightscreen.page.not_started"
    assert payload["run_id"] == "run-1"
    assert payload["error"] == "InputError"
    assert "ada" not in str(payload), "the error may quote a path"
