"""What a finished run tells: which events, with which numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nightscreen.tasks.events import names_of, payload_of
from tests.money.service_in_memory import Bureau

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The report of a small night that went well."""
    return Bureau(tmp_path_factory.mktemp("desk"), rows=20).night().report


def test_a_quiet_night_is_one_event(report: dict[str, Any]) -> None:
    """Nothing else is worth a word."""
    quiet = {**report, "changes": {}, "notices": []}
    assert names_of(quiet) == ["run.completed"]


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"changes": {"new_listing": 2}}, "listings.new"),
        ({"notices": ["the balance is low: top it up"]}, "balance.low"),
        ({"state": "stopped", "stop_reason": "budget"}, "run.stopped"),
        ({"state": "test_mode"}, "run.test_mode"),
    ],
)
def test_what_is_worth_a_word_has_a_name(
    changes: dict[str, Any], name: str, report: dict[str, Any]
) -> None:
    """Each is an event of its own, so that automations can tell them apart."""
    assert name in names_of({**report, "changes": {}, "notices": [], **changes})


def test_drift_is_an_event(report: dict[str, Any]) -> None:
    """Money went that no call accounts for."""
    drifting = {**report, "balance": {**report["balance"], "drift": "12.50"}}
    assert "balance.drift" in names_of(drifting)
    assert payload_of(drifting)["drift"] == "12.50"


def test_a_payload_holds_ids_words_and_numbers(report: dict[str, Any], tmp_path: Path) -> None:
    """Nothing of any customer: every value is a number, or one of three known words."""
    for name, value in payload_of(report).items():
        if name not in {"run_id", "state", "stop_reason"} and value is not None:
            float(value)
