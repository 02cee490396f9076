"""Asking: the calls that open and close the books, and coming back to a check."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from nightscreen.schemas.calls import LookupStatus
from nightscreen.schemas.errors import JournalError
from tests.money.service_in_memory import DENIED, LOST, Bureau

if TYPE_CHECKING:
    from pathlib import Path

    from nightscreen.calling.asking import Asking
    from tests.client.fakes import Canned

BEARING = {"bank_account", "ecosystem"}


def alone(bureau: Bureau) -> tuple[str, str]:
    """Return the operations that opened and closed the night."""
    return bureau.service.ledger[0][0], bureau.service.ledger[-1][0]


def test_the_books_open_and_close_with_calls_that_bear_a_balance(tmp_path: Path) -> None:
    """Both ends are bank account or ecosystem lookups, and the books are exact."""
    bureau = Bureau(tmp_path, rows=60)
    report = bureau.night().report
    assert set(alone(bureau)) <= BEARING
    assert report["balance"]["exact"]
    assert max(Counter(entry[:2] for entry in bureau.service.ledger).values()) == 1


def test_karma_alone_has_no_exact_books_but_no_drift(tmp_path: Path) -> None:
    """Only hits bear a balance: the report says that the books are not exact."""
    bureau = Bureau(tmp_path, rows=120)
    report = bureau.night(checks=["karma"]).report
    assert report["state"] == "completed"
    assert report["balance"]["drift"] == "0.00"


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


def test_the_closing_call_is_another_one_where_its_check_has_stopped(tmp_path: Path) -> None:
    """A stopped check cannot close the books; what can be asked is asked."""
    bureau = Bureau(tmp_path, rows=60)

    def fails(operation: str, _: str, number: int) -> Canned | None:
        return DENIED if operation == "ecosystem" and number > 20 else None

    bureau.service.before = fails
    report = bureau.night().report
    assert report["stop_reason"] == "auth"
    assert report["checks"]["bank_account"]["pending"] == 0
    assert report["checks"]["karma"]["pending"] == 0


def test_the_closing_call_keeps_its_money(tmp_path: Path) -> None:
    """Resends of lost calls never take what is held back for the closing call."""
    bureau = Bureau(tmp_path, rows=60)
    bureau.service.after = lambda _operation, _identity, number: LOST if number % 5 == 2 else None
    report = bureau.night(max_spend="900").report
    assert report["stop_reason"] == "budget"
    assert bureau.service.charged <= 900
    assert report["balance"]["closing"] is not None


def test_a_check_entered_again_asks_nothing_anew(tmp_path: Path) -> None:
    """What came to an end keeps its end, also where the first caller was cancelled."""
    bureau = Bureau(tmp_path, rows=60)
    joined: list[bool] = []

    async def cancel_and_return(asking: Asking) -> None:
        lane = asking.lanes["karma"]
        while not lane.open:  # noqa: ASYNC110 - nothing tells that it is asked
            await asyncio.sleep(0.1)
        first = asyncio.ensure_future(asking.ask("karma"))
        await asyncio.sleep(3)
        first.cancel()
        await asyncio.wait([first])
        await asking.ask("karma")
        joined.append(lane.open == 0)

    report = bureau.night(steer=cancel_and_return).report
    assert report["state"] == "completed"
    assert joined == [True]
    assert max(Counter(entry[:2] for entry in bureau.service.ledger).values()) == 1


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


def test_nothing_is_asked_after_a_stop(tmp_path: Path) -> None:
    """A stopped run claims nothing, and says of each lookup that it waits."""
    bureau = Bureau(tmp_path, rows=30)

    async def stop(asking: Asking) -> None:
        asking.run.stops.stop("cancelled")

    driven = bureau.night(steer=stop)
    assert bureau.service.ledger == []
    assert {state for _, state in driven.lookups} == {LookupStatus.WAITING}
    assert "karma" in driven.run.progress
