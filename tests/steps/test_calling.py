"""Asking: the calls that open and close the books, and coming back to a check."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from nightscreen.schemas.errors import JournalError
from tests.money.service_in_memory import LOST, Bureau

if TYPE_CHECKING:
    from pathlib import Path

    from nightscreen.calling.asking import Asking
    from tests.client.fakes import Canned


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


def test_a_broken_journal_reaches_the_caller_and_a_resume_does_the_rest(tmp_path: Path) -> None:
    """A full disk in mid-run: nothing more is sent, an error is reported, none is paid twice."""
    bureau = Bureau(tmp_path, rows=80)
    runs: list[str] = []

    class Full:
        """A journal whose disk is full."""

        def claim(self, *_: object, **__: object) -> Any:  # noqa: ANN401 - never returns
            """Refuse."""
            raise JournalError("the disk of the journal is full")

        def settle(self, *_: object) -> None:
            """Refuse."""
            raise JournalError("the disk of the journal is full")

    async def fill(asking: Asking) -> None:
        await asyncio.sleep(8)
        runs.append(asking.run.run_id)
        asking.writer._store = Full()  # type: ignore[assignment]  # as much as is used

    with pytest.raises(JournalError, match="disk"):
        bureau.night(steer=fill)
    charged = Counter(entry[:2] for entry in bureau.service.ledger if entry[2])
    start = len(bureau.service.ledger)
    report = bureau.night(run=runs[0]).report
    assert report["state"] == "completed"
    again = {entry[:2] for entry in bureau.service.ledger[start:] if entry[2]} & set(charged)
    assert len(again) <= 3 * 4 * 2


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
