"""A walk through every stop: the doctor is asked, its command is typed, and the run completes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nightscreen.calling.asking import Asking
from nightscreen.journal import open_journal
from nightscreen.schemas.errors import JournalError
from nightscreen.schemas.stops import StopReason
from tests.begun import begin_run
from tests.client.fakes import Canned
from tests.forked import Forked
from tests.money.service_in_memory import DENIED, LOST, REJECTED, Bureau
from tests.money.test_stops import honest
from tests.ops.walk import ask_doctor, type_it

ROWS = 24


def from_call(first: int, fault: Canned) -> Callable[[str, str, int], Canned | None]:
    return lambda _operation, _identity, number: fault if number >= first else None


async def unapproved(asking: Asking) -> None:
    """End as an earlier version did whose spending nobody approved: the journal has no request."""
    asking.run.stops.stop(StopReason.APPROVAL)


async def cancelled(asking: Asking) -> None:
    await asyncio.sleep(8)
    asking.run.stops.stop(StopReason.CANCELLED)


@dataclass
class Stop:
    """A stop: what brings it about, what mends it, and words the doctor must say first."""

    reason: str
    fault: Callable[[str, str, int], Canned | None] = lambda *_: None
    settings: dict[str, Any] | None = None
    mended: dict[str, Any] | None = None
    parameters: dict[str, Any] | None = None
    steer: Any = None
    wallet: int = 1_000_000
    wait_s: float = 0
    rows: int = ROWS
    first: str = ""
    in_command: str = ""


STOPS = [
    Stop("budget", parameters={"max_spend": "200"}, in_command="--max-spend"),
    *(
        Stop("budget", settings={name: "200"}, mended={}, first=f"NIGHTSCREEN_{name.upper()}")
        for name in ("daily_spend_cap", "monthly_spend_cap")
    ),
    Stop("balance", wallet=200, first="top the wallet up by about ₦"),
    Stop("balance", settings={"balance_floor": "999800"}, mended={}, first="BALANCE_FLOOR"),
    Stop("auth", fault=from_call(30, DENIED), first="NIGHTSCREEN_API_KEY"),
    Stop("outage", fault=from_call(30, LOST), first="the service answers again"),
    Stop("failures", fault=from_call(60, REJECTED), first="errors by kind", rows=120),
    Stop("deadline", parameters={"deadline": "soon"}, first="--deadline", rows=80),
    Stop(
        "quota",
        settings={"max_per_day": {"karma": 50}},
        wait_s=86_400,
        rows=80,
        first="MAX_PER_DAY",
    ),
    Stop("approval", steer=unapproved),
    Stop("cancelled", steer=cancelled),
]
QUICK = {0, 3, 5, 6, 8, 9, 10, 11}
"""What else stops a run is mended like one of these."""


@pytest.mark.parametrize(
    "stop",
    [
        pytest.param(stop, id=f"{n}-{stop.reason}", marks=() if n in QUICK else pytest.mark.long)
        for n, stop in enumerate(STOPS)
    ],
)
def test_the_command_the_doctor_names_ends_a_stop(stop: Stop, tmp_path: Path) -> None:
    """What is in the way is mended as the doctor says; its command does the rest.

    The stopped run has every row and every naira charged, and nothing answered is paid twice.
    """
    bureau = Bureau(tmp_path, rows=stop.rows, settings=stop.settings or {})
    bureau.service.before, bureau.service.wallet = stop.fault, stop.wallet
    parameters = dict(stop.parameters or {})
    if "deadline" in parameters:
        parameters["deadline"] = bureau.in_hours(15 / 3600)
    report = bureau.night(steer=stop.steer, **parameters).report
    assert (report["state"], report["stop_reason"]) == ("stopped", stop.reason)
    honest(report, bureau)
    ledger = bureau.service.ledger
    first = len(ledger)
    found = ask_doctor(bureau)
    assert (found.exit_status, found.safe) == (3, True)
    assert found.run is not None
    assert found.run["run_id"] == report["run_id"]
    assert found.remedy is not None
    assert stop.first in found.remedy.first
    assert stop.in_command in found.remedy.command
    if stop.mended is not None:
        bureau.settings = stop.mended
    bureau.service.before, bureau.service.wallet = lambda *_: None, 1_000_000
    bureau.loop.now_s += stop.wait_s
    again = type_it(bureau, found)
    assert (again["run_id"], again["state"]) == (report["run_id"], "completed")
    honest(again, bureau)
    paid_before, paid_since = (
        {entry[:2] for entry in part if entry[2]} for part in (ledger[:first], ledger[first:])
    )
    in_doubt = sum(part["in_doubt"] for part in report["checks"].values())
    assert len(paid_before & paid_since) <= in_doubt
    healthy = ask_doctor(bureau)
    assert (healthy.exit_status, healthy.remedy) == (0, None)


def test_test_mode_is_told_with_a_status_of_its_own(tmp_path: Path) -> None:
    """Once the service is live the same run is screened in full."""
    bureau = Bureau(tmp_path, rows=ROWS)
    bureau.service.before = lambda *_: Canned(200, {})
    bureau.night()
    found = ask_doctor(bureau)
    assert (found.exit_status, found.safe) == (4, True)
    assert found.remedy is not None
    assert "live" in found.remedy.first
    bureau.service.before = lambda *_: None
    assert type_it(bureau, found)["state"] == "completed"


def killed(bureau: Bureau) -> None:
    """Let a run end as by kill: nothing is closed, nothing reported."""

    def breaks(_operation: str, _identity: str, number: int) -> Canned | None:
        if number == 30:
            raise RuntimeError
        return None

    bureau.service.before = breaks
    with pytest.raises(JournalError, match="RuntimeError"):
        bureau.night()
    bureau.service.before = lambda *_: None


def hold(bureau: Bureau) -> str:
    """Take up the newest run, as another process that is at work on it."""
    journal = open_journal(bureau.folder / "home")
    run = journal.runs.newest()[0]
    given = {name: getattr(run, name) for name in ("flow", "batch", "purpose", "input_digest")}
    begin_run(journal, run.run_id, **given, folder=run.folder, parameters=run.parameters)
    return "held"


def test_a_killed_run_goes_on_unless_another_process_holds_it(tmp_path: Path) -> None:
    """It says what may have been charged, and that nothing is lost; who holds it is named.

    An id that the journal does not know points to the list of runs.
    """
    bureau = Bureau(tmp_path, rows=ROWS)
    killed(bureau)
    with Forked(lambda: hold(bureau)) as other:
        assert other.told() == "held"
        found = ask_doctor(bureau)
        assert (found.exit_status, found.safe) == (0, False)
        assert str(other.pid) in (found.why_not or "")
        assert found.remedy == ("wait until it ends: it is at work", "")
    found = ask_doctor(bureau)
    assert (found.exit_status, found.safe) == (3, True)
    assert found.run is not None
    assert found.run["state"] == "killed"
    assert found.run["in_doubt"] > 0
    assert type_it(bureau, found)["state"] == "completed"
    unknown = ask_doctor(bureau, "20260301-220000-ffffff")
    assert (unknown.exit_status, unknown.run) == (2, None)
    assert unknown.remedy is not None
    assert "never started" in unknown.remedy.first
    assert unknown.remedy.command == "nightscreen runs list"
