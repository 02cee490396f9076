"""Asking: the calls that open and close the books, and coming back to a check."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nightscreen.calling.asking import Asking
from tests.client.fakes import Canned
from tests.money.service_in_memory import LOST, Bureau


def test_a_lost_opening_is_asked_of_another_check(tmp_path: Path) -> None:
    """Where the first lookup fails for good, another check opens the books."""
    bureau = Bureau(tmp_path, rows=60, settings={"attempts": 2, "tolerated_failure_pct": 100})

    def fails(operation: str, _: str, number: int) -> Canned | None:
        return LOST if operation == "bank_account" and number < 2 else None

    bureau.service.before = fails
    report = bureau.night().report
    assert [entry[0] for entry in bureau.service.ledger[:3]] == [
        "bank_account",
        "bank_account",
        "ecosystem",
    ]
    assert report["state"] == "completed"
    assert not report["balance"]["exact"]


def test_closing_after_a_failure_sends_nothing_more(tmp_path: Path) -> None:
    """Where whoever asked is gone, what was queued is not asked and paid for any more."""
    bureau = Bureau(tmp_path, rows=80)
    sent: list[int] = []

    async def fail(asking: Asking) -> None:
        await asyncio.sleep(8.5)
        sent.append(len(bureau.service.ledger))
        (asked,) = [
            task for task in asyncio.all_tasks() if "run_screening" in repr(task.get_coro())
        ]
        asked.cancel()

    with pytest.raises(asyncio.CancelledError):
        bureau.night(steer=fail)
    assert len(bureau.service.ledger) - sent[0] <= 1


def test_lookups_that_are_never_answered_leave_the_others_to_be_asked(tmp_path: Path) -> None:
    """A row of lookups that fill the lane and always fail is no outage: those behind get through.

    Once others are answered, the failing ones use up their attempts and end.
    """
    bureau = Bureau(tmp_path, rows=60)
    seen: dict[str, None] = {}

    def refuse(operation: str, identity: str, _: int) -> Canned | None:
        if operation == "karma":
            seen.setdefault(identity)
        return Canned(429, {"status": "error"}) if identity in [*seen][20:32] else None

    bureau.service.before = refuse
    report = bureau.night().report
    assert report["state"] == "completed"
    assert report["checks"]["karma"]["failed"] == 12
