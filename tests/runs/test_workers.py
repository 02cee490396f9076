"""A run with several workers: the same rows, the same money, one account of both."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from nightscreen.calling.asking import Asking
from nightscreen.config.parameters import ScreenBatch
from nightscreen.journal import open_journal
from nightscreen.journal.calls import ClaimRequest
from nightscreen.runs import screening_run
from nightscreen.runs.intake import read_input
from nightscreen.runs.worker import close_worker, open_worker
from nightscreen.sandbox.faults import Latency, Profile
from nightscreen.schemas.calls import LookupStatus
from nightscreen.schemas.errors import InputError, JournalError
from nightscreen.schemas.money import to_micro
from nightscreen.schemas.stops import StopReason
from tests.laws import all_calls
from tests.runs import workers_in_a_test
from tests.runs.workers_in_a_test import Shared, screen_with_workers
from tests.screening import CONSENT, Night, World, customer

ROWS = [customer(number, **CONSENT) for number in range(60)]
SHARED_ROWS = [
    customer(number, phone=f"+23480300{number // 3:05d}", **CONSENT) for number in range(60)
]
SEVERAL: dict[str, Any] = {"karma_identities": ["bvn", "phone"]}


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the processes look at each other often, so that the tests wait little."""
    monkeypatch.setattr(workers_in_a_test, "LOOK_S", 0.05)


def world_under(folder: Path, **settings: Any) -> World:  # noqa: ANN401 - settings
    """Return a world in a folder of its own, whose answers take long enough to be shared."""
    folder.mkdir()
    world = World(folder, settings=settings)
    world.sandbox.latency = Latency(Profile(kind="fixed", ms=10), 0)
    return world


def without_times(night: Night) -> pa.Table:
    """Return the enriched rows without what tells when they were asked."""
    table = night.table
    return table.drop_columns([name for name in table.column_names if name.endswith("_at")])


def test_the_same_rows_as_one_process(tmp_path: Path) -> None:
    """Row for row and number for number, where karma stops at a customer's first listing."""
    one, several = world_under(tmp_path / "one"), world_under(tmp_path / "several")
    options: dict[str, Any] = {**SEVERAL, "karma_stop_at_first": True}
    alone = one.screen(SHARED_ROWS, **options)
    together, runner = screen_with_workers(several, SHARED_ROWS, workers=3, **options)
    assert len(runner.workers) == 3
    # how many more, and of which, is for the machine to say
    assert sum(each > 0 for each in runner.attempts.values()) > 1
    assert sum(runner.attempts.values()) > 20
    assert without_times(together).equals(without_times(alone))
    assert together.report["state"] == "completed"
    names = ("lookups", "distinct", "reused", "paid", "free", "spared", "cost", "answers")
    for check, numbers in alone.report["checks"].items():
        others = together.report["checks"][check]
        assert {name: others[name] for name in names} == {name: numbers[name] for name in names}
    balances = [dict(night.report["balance"]) for night in (together, alone)]
    for balance in balances:
        balance.pop("exact")  # whether answers overtook each other is for the machine to say
    assert balances[0] == balances[1]


def test_a_stop_that_one_process_meets_stops_all(tmp_path: Path) -> None:
    world = world_under(tmp_path / "world")
    world.sandbox.wallet.balance = 500_000_000
    night, runner = screen_with_workers(world, ROWS, workers=2)
    assert (night.report["state"], night.report["stop_reason"]) == ("stopped", "balance")
    stops = {each.run.stops.reason for each in runner.workers.values()}
    assert stops == {StopReason.BALANCE}


def test_what_a_lost_worker_had_claimed_is_asked_by_others(tmp_path: Path) -> None:
    """Nothing answered is paid for twice, and what it was answered is the run's own."""
    world = world_under(tmp_path / "world")
    world.sandbox.latency = Latency(
        Profile(kind="fixed", ms=60), 0
    )  # so that it is lost while it asks
    killed: list[asyncio.Task[None]] = []

    async def kill_while_it_asks(runner: Shared) -> None:
        progress = runner.workers[1].run.progress.values()
        while not any(each.in_flight for each in progress):  # noqa: ASYNC110 - nothing tells when
            await asyncio.sleep(0)
        await runner.kill(1)

    def lose(runner: Shared, number: int) -> None:
        if number == 1:
            killed.append(asyncio.get_running_loop().create_task(kill_while_it_asks(runner)))

    night, runner = screen_with_workers(world, ROWS, workers=2, on_open=lose)
    assert killed[0].done()
    assert runner.tasks[1].cancelled()
    assert night.report["state"] == "completed"
    with open_journal(world.folder / "home") as journal:
        calls = all_calls(journal)
    answered = [(row.check, row.subject) for row in calls if row.state == "answered"]
    assert len(answered) == len(set(answered))
    assert any(row.trouble == "crashed" for row in calls)
    assert len({row.holder for row in calls}) == 3
    assert {numbers["reused"] for numbers in night.report["checks"].values()} == {0}


@pytest.fixture
def priced(tmp_path: Path) -> Any:  # noqa: ANN401 - a run, opened and closed
    """Give a run that is priced, in the process that holds it."""
    world = world_under(tmp_path / "world", daily_spend_cap="5000")
    parameters = ScreenBatch(
        input=str(world.write(ROWS)), output=str(world.folder / "out"), workers=2
    )
    run = screening_run.open_screening(parameters, world.read_settings())
    read_input(run)
    screening_run.make_plan(run)
    screening_run.make_price(run)
    yield run
    run.close()


def end(worker: Asking) -> None:
    """End a worker as a process that is stopped in good order does."""
    worker.leaves = True
    asyncio.run(close_worker(worker))
    worker.run.close()


def test_a_worker_keeps_the_caps_of_the_run(priced: screening_run.ScreeningRun) -> None:
    """The settings of its machine may name others, or none.

    While it lives the run is not resumed: it would claim what is resumed.
    """
    theirs = priced.settings.model_copy(update={"daily_spend_cap": None})
    worker = open_worker(priced.run_id, theirs)
    assert worker is not None
    assert worker.run.caps == priced.caps
    assert worker.run.caps.day_micro == to_micro(Decimal(5000))
    with open_journal(priced.settings.home) as other:
        assert other.askers.asks_elsewhere(priced.run_id)
    priced.journal.runs.finish(priced.run_id, state="stopped", stop_reason="outage", report={})
    with pytest.raises(InputError, match="still under way"):
        screening_run.open_screening(ScreenBatch(run=priced.run_id), priced.settings)
    end(worker)


def test_a_worker_that_leaves_gives_back_what_it_has_claimed(
    priced: screening_run.ScreeningRun,
) -> None:
    """A process that is ended in good order costs the run nothing, and stops nobody.

    One that comes to its turn when the run asks no more just ends; of a run that nobody knows it
    says what is wrong.
    """
    worker = open_worker(priced.run_id, priced.settings)
    assert worker is not None
    assert priced.lookups is not None
    wish = ClaimRequest("karma", number=3)
    claimed = worker.run.journal.calls.claim(
        priced.run_id, "portfolio", wish, worker.run.caps, since=0
    )
    assert len(claimed.taken) == 3
    end(worker)
    assert worker.writer.broken is None
    counts = priced.journal.lookups.counts(priced.lookups)
    assert {status for _, status in counts} == {LookupStatus.WAITING}
    assert priced.journal.lookups.stops(priced.run_id) == {}
    priced.journal.lookups.clear(priced.run_id)
    assert open_worker(priced.run_id, priced.settings) is None
    with pytest.raises(JournalError, match="one journal, on PostgreSQL"):
        open_worker("20260101-000000-abcdef", priced.settings)
