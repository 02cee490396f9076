"""Asking: the calls that open and close the books, and coming back to a check."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nightscreen.calling.asking import Asking
from tests.money.service_in_memory import Bureau


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
