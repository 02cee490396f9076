"""Stops during a run: the folder is correct, and a resume does only what is missing.

`tests/ops/test_walk.py` resumes a run after a stop for each reason.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from nightscreen.calling.asking import Asking
from nightscreen.calling.stops import Stops
from nightscreen.schemas.clock import MICROS, next_day
from nightscreen.schemas.stops import StopReason
from tests.client.fakes import Canned
from tests.money.service_in_memory import LOST, Bureau

ROWS = 50
ATTEMPTS = 5


def honest(report: dict[str, Any], bureau: Bureau) -> None:
    """Check that the report has every row and every naira charged; laws check the rest."""
    assert report["rows"]["screened"] == bureau.rows
    explained = Decimal(report["balance"]["explained_in_doubt"])
    assert Decimal(report["cost"]["total"]) + explained == bureau.service.charged


def desk(below: Path, **settings: Any) -> Bureau:  # noqa: ANN401 - settings of any kind
    return Bureau(below, rows=ROWS, settings=settings)


def test_an_empty_wallet_stops_the_run(tmp_path: Path) -> None:
    """402 stops all checks; one call finds it still empty; topped up, a resume does the rest."""
    bureau = desk(tmp_path)
    bureau.service.wallet = 500
    report = bureau.night().report
    assert (report["state"], report["stop_reason"]) == ("stopped", "balance")
    honest(report, bureau)
    asked: list[object] = []
    bureau.service.before = lambda *call: asked.append(call)
    bureau.service.wallet = 0
    assert bureau.night(run=report["run_id"]).report["stop_reason"] == "balance"
    assert len(asked) == 1
    bureau.service.wallet = 100_000
    again = bureau.night(run=report["run_id"]).report
    assert again["state"] == "completed"
    assert float(again["balance"]["drift"]) == -(100_000 - float(report["balance"]["closing"]))
    charges = Counter(entry[:2] for entry in bureau.service.ledger if entry[2])
    assert max(charges.values()) == 1


def test_the_floor_is_kept(tmp_path: Path) -> None:
    """The wallet never falls below the floor, and little above it is left unused."""
    bureau = desk(tmp_path, balance_floor="500")
    bureau.service.wallet = 1200
    report = bureau.night().report
    assert report["stop_reason"] == "balance"
    assert 500 <= bureau.service.wallet < 530
    honest(report, bureau)


@pytest.mark.parametrize(
    ("fault", "most_in_doubt"),
    [
        pytest.param(LOST, 9, id="answers are lost"),
        pytest.param(Canned(error=httpx.ConnectError("refused")), 0, id="nobody listens"),
    ],
)
def test_a_stop_that_may_pass_is_taken_up_again(
    tmp_path: Path, fault: Canned, most_in_doubt: int
) -> None:
    """With a deadline the run tries again after an outage, and repeats the lookups it lost.

    Only lookups that were lost as often as a lookup may be sent in a day stay in doubt.
    """
    bureau = desk(tmp_path, outage_give_up="PT1M", tolerated_failure_pct=100)
    bureau.rows = 80
    start = bureau.loop.time()

    def fails(*_: object) -> Canned | None:
        return fault if 8 < bureau.loop.time() - start < 1500 else None

    bureau.service.before = fails
    report = bureau.night(deadline=bureau.in_hours(2)).report
    assert report["state"] == "completed"
    sent = Counter(entry[:2] for entry in bureau.service.ledger)
    used_up = sum(number == ATTEMPTS for number in sent.values())
    in_doubt = sum(part["in_doubt"] for part in report["checks"].values())
    assert in_doubt <= min(used_up, most_in_doubt)
    assert used_up < 10
    assert max(sent.values()) <= ATTEMPTS
    assert sum(part["failed"] + part["pending"] for part in report["checks"].values()) == 0
    assert 1500 < bureau.loop.time() - start < 3600
    honest(report, bureau)


def test_a_run_that_waits_can_be_cancelled(tmp_path: Path) -> None:
    """Cancelling replaces a stop that may pass, and the waiting ends."""
    bureau = desk(tmp_path, outage_give_up="PT1M")
    bureau.service.before = lambda *_: LOST
    cancelling: list[asyncio.Task[float]] = []

    async def cancel(stops: Stops) -> float:
        while stops.resting_since is None:  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(1)
        assert stops.resting_until == stops.resting_since + 900 * MICROS
        stops.stop(StopReason.CANCELLED)
        return bureau.loop.time()

    async def watch(asking: Asking) -> None:
        cancelling.append(asyncio.get_running_loop().create_task(cancel(asking.run.stops)))

    report = bureau.night(steer=watch, deadline=bureau.in_hours(2)).report
    assert (report["state"], report["stop_reason"]) == ("stopped", "cancelled")
    assert bureau.loop.time() < cancelling[0].result() + 60


# --- stops that end by themselves, and stops that do not ---


def test_the_daily_quota_comes_back_at_noon_within_a_run(tmp_path: Path) -> None:
    """With a deadline after noon in Lagos the run waits for the new day and ends by itself."""
    bureau = Bureau(tmp_path, rows=40, settings={"max_per_day": {"karma": 30}})
    noon_s = (next_day(bureau.loop.micros()) - bureau.loop.micros()) / 1_000_000
    asked_at: list[float] = []
    start = bureau.loop.time()

    def before(operation: str, *_: object) -> None:
        if operation == "karma":
            asked_at.append(bureau.loop.time() - start)

    bureau.service.before = before
    report = bureau.night(deadline=bureau.in_hours(noon_s / 3600 + 1)).report
    assert report["state"] == "completed"
    assert sum(at < noon_s for at in asked_at) == 30
    assert len(asked_at) > 30
    assert noon_s <= bureau.loop.time() - start < noon_s + 600
    honest(report, bureau)


def test_one_wish_for_an_hour_at_the_opening_ends_no_night(tmp_path: Path) -> None:
    """Without a deadline too: a single answer's `Retry-After` counts for five minutes at most."""
    bureau = Bureau(tmp_path, rows=6)
    busy = Canned(429, b"busy", {"Retry-After": "3600"})
    bureau.service.before = lambda *asked: busy if asked[2] == 0 else None
    began = bureau.loop.time()
    report = bureau.night().report
    assert (report["state"], report["stop_reason"]) == ("completed", None)
    assert sum(part["failed"] + part["in_doubt"] for part in report["checks"].values()) == 0
    assert 300 <= bureau.loop.time() - began < 600


def test_a_lost_opening_is_asked_of_another_check(tmp_path: Path) -> None:
    """If the first lookup fails for good, another check gets the opening balance."""
    bureau = desk(tmp_path, attempts=2, tolerated_failure_pct=100)
    bureau.service.before = lambda operation, _, number: (
        LOST if operation == "bank_account" and number < 2 else None
    )
    report = bureau.night().report
    asked = [entry[0] for entry in bureau.service.ledger[:3]]
    assert asked == ["bank_account", "bank_account", "ecosystem"]
    assert report["state"] == "completed"
    assert not report["balance"]["exact"]


def test_closing_after_a_failure_sends_nothing_more(tmp_path: Path) -> None:
    """If the run's task is cancelled, queued lookups are not sent and paid for."""
    bureau = Bureau(tmp_path, rows=80)
    sent: list[int] = []

    async def fail(asking: Asking) -> None:
        await asyncio.sleep(8.5)
        sent.append(len(bureau.service.ledger))
        (screening,) = [
            task for task in asyncio.all_tasks() if "run_screening" in repr(task.get_coro())
        ]
        screening.cancel()

    with pytest.raises(asyncio.CancelledError):
        bureau.night(steer=fail)
    assert len(bureau.service.ledger) - sent[0] <= 1
