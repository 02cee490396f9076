"""A run with several workers: the same rows, the same money, one account of both."""

from __future__ import annotations

import asyncio
import itertools
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from nightscreen.calling import coordinator, worker
from nightscreen.calling.control import StopReason
from nightscreen.calling.funding_rounds import open_rounds
from nightscreen.calling.shards import families
from nightscreen.journal import open_journal
from nightscreen.journal.work_queue import WHOLE_RUN, SharedWork, shards
from nightscreen.planning.short_circuit import Chains
from nightscreen.sandbox.app import application
from nightscreen.sandbox.faults import Latency, fixed
from nightscreen.schemas.money import to_micro
from tests.screening import CONSENT, Night, World, customer
from tests.steps import parts_in_a_test
from tests.steps.parts_in_a_test import TaskCrew, open_priced, refuse_to_ask, screen_in_parts
from tests.steps.virtual_time import run as run_virtually

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from nightscreen.client.limiter import AdaptiveCap
    from nightscreen.journal import Journal
    from nightscreen.runs.screening_run import ScreeningRun
    from tests.steps.virtual_time import VirtualLoop

ROWS = [customer(number, **CONSENT) for number in range(120)]
SHARED_ROWS = [
    customer(number, phone=f"+23480300{number // 3:05d}", **CONSENT) for number in range(120)
]
HANGS = 5
SEVERAL = {"karma_identities": ["bvn", "phone"]}


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let parts and run look at each other often, so that the tests wait little."""
    monkeypatch.setattr(coordinator, "POLL_S", 0.05)
    monkeypatch.setattr(worker, "POLL_S", 0.05)


def world_under(folder: Path, **settings: Any) -> World:  # noqa: ANN401 - settings
    """Return a world in a folder of its own."""
    folder.mkdir()
    return World(folder, settings={"shard_rows": 50, **settings})


def without_times(night: Night) -> pa.Table:
    """Return the enriched rows without what tells when they were asked."""
    table = night.table
    return table.drop_columns([name for name in table.column_names if name.endswith("_at")])


def money(night: Night, world: World) -> tuple[str, str]:
    """Return what the report and what the sandbox say was charged."""
    return f"{float(night.report['cost']['total']):.2f}", f"{float(world.charged):.2f}"


@pytest.mark.parametrize("stop_at_first", [pytest.param(False, marks=pytest.mark.long), True])
def test_the_same_rows_as_one_process(tmp_path: Path, stop_at_first: bool) -> None:
    """Row for row and number for number, also where karma stops at a customer's first listing."""
    one, several = world_under(tmp_path / "one"), world_under(tmp_path / "several")
    options: dict[str, Any] = {**SEVERAL, "karma_stop_at_first": stop_at_first}
    alone = one.screen(SHARED_ROWS, **options)
    together, crew = screen_in_parts(several, SHARED_ROWS, workers=3, **options)
    assert crew.begun == [1, 2, 3]
    assert without_times(together).equals(without_times(alone))
    assert together.report["state"] == "completed"
    for check, numbers in alone.report["checks"].items():
        others = together.report["checks"][check]
        names = ["lookups", "distinct", "reused"]
        if not stop_at_first:  # else which lookup is spared depends on which answer comes first
            names += ["paid", "free", "spared", "cost", "answers"]
        for name in names:
            assert others[name] == numbers[name], (check, name)
    assert money(together, several)[0] == money(together, several)[1]
    assert money(alone, one)[0] == money(alone, one)[1]
    if stop_at_first:
        return
    balances = [dict(night.report["balance"]) for night in (together, alone)]
    for balance in balances:
        balance.pop("exact")  # whether answers overtook each other is for the machine to say
    assert balances[0] == balances[1]


def test_a_cap_holds_over_all_parts(tmp_path: Path) -> None:
    """What is left goes on; the cap is never passed, and the run says why it ended."""
    world = world_under(tmp_path / "world")
    night, crew = screen_in_parts(world, ROWS, workers=2, max_spend="1000")
    assert crew.offers
    assert (night.report["state"], night.report["stop_reason"]) == ("stopped", "budget")
    reported, charged = money(night, world)
    assert reported == charged
    assert 900 < float(charged) <= 1000


@pytest.mark.parametrize("stop_at_first", [False, True])
def test_just_enough_money_is_offered_bit_by_bit(tmp_path: Path, stop_at_first: bool) -> None:
    """Answers that cost nothing pay for the next; the rows are those of a run without a cap."""
    options: dict[str, Any] = {**SEVERAL, "karma_stop_at_first": stop_at_first}
    alone = world_under(tmp_path / "one").screen(SHARED_ROWS, **options)
    enough = Decimal(alone.report["cost"]["total"]) + 100
    several = world_under(tmp_path / "several")
    together, crew = screen_in_parts(
        several, SHARED_ROWS, workers=3, max_spend=str(enough), **options
    )
    assert together.report["state"] == "completed"
    assert crew.offers > 1
    # Who is listed by a shared phone already is not asked about by BVN, if that comes later.
    differ = ["karma_source"] if stop_at_first else []
    rows = [without_times(each).drop_columns(differ) for each in (together, alone)]
    assert rows[0].equals(rows[1])
    assert money(together, several)[0] == money(together, several)[1]


def test_nobody_waits_for_the_slowest_lookup_of_an_offer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call hangs until three times as many are answered as the money paid for at first."""
    world = world_under(tmp_path / "world")
    people = [customer(number, **CONSENT) for number in range(600)]
    hanging = one_hangs(application(world.sandbox), 360)
    monkeypatch.setattr(parts_in_a_test, "application", lambda _: hanging)
    night, crew = screen_in_parts(world, people, workers=2, max_spend="1200", checks=["karma"])
    assert night.report["state"] == "completed"
    karma = night.report["checks"]["karma"]
    assert karma["attempts"] == karma["lookups"], "nothing had to be sent again"
    assert crew.offers > 3


def one_hangs(sound: Any, others: int) -> Any:  # noqa: ANN401 - ASGI applications
    """Return an application that answers its fifth call after so many others."""
    begun, answered, enough = itertools.count(), itertools.count(1), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - as ASGI has it
        if next(begun) == HANGS:
            await enough.wait()
        await sound(scope, receive, send)
        if next(answered) == others:
            enough.set()

    return app


def test_too_little_money_to_share_is_left_to_the_runs_own_process(tmp_path: Path) -> None:
    """A cap of a call and a half asks a whole batch whose answers are free, one by one."""
    world = world_under(tmp_path / "world")
    night, crew = screen_in_parts(world, ROWS, workers=2, max_spend="15", checks=["karma"])
    assert night.report["checks"]["karma"]["free"] > 3
    assert crew.offers == 0


def test_a_stop_that_one_part_meets_stops_all(tmp_path: Path) -> None:
    """An empty wallet ends the run for every part, with the reason in the report."""
    world = world_under(tmp_path / "world")
    world.sandbox.wallet.balance = 500_000_000
    night, _ = screen_in_parts(world, ROWS, workers=2)
    assert (night.report["state"], night.report["stop_reason"]) == ("stopped", "balance")
    assert money(night, world)[0] == money(night, world)[1]


def test_charged_answers_nobody_can_read_stop_all_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers that nobody can read stop the check: three in a row of one part, or ten of all."""
    workers = 5
    world = world_under(tmp_path / "world", max_in_flight={"ecosystem": workers})
    monkeypatch.setattr(
        parts_in_a_test, "application", lambda sandbox: without_records(application(sandbox))
    )
    night, _ = screen_in_parts(world, ROWS, workers=workers, checks=["ecosystem"])
    assert night.report["state"] == "stopped"
    assert night.report["stop_reason"] in {"outage", "failures"}
    part = night.report["checks"]["ecosystem"]
    assert 3 <= part["unreadable"] <= 5 * workers, "what each had under way settles"
    assert part["pending"] > 0
    assert money(night, world)[0] == money(night, world)[1]


def without_records(sound: Any) -> Any:  # noqa: ANN401 - ASGI applications
    """Return an application whose charged ecosystem answers hold a sentence for a record."""

    async def app(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - as ASGI has it
        parts: list[Any] = []

        async def keep(message: Any) -> None:  # noqa: ANN401 - as ASGI has it
            parts.append(message)

        await sound(scope, receive, keep)
        body = b"".join(each.get("body", b"") for each in parts)
        if parts[0]["status"] == 200:
            body = json.dumps({**json.loads(body), "data": "see the portal"}).encode()
        headers = [pair for pair in parts[0]["headers"] if pair[0] != b"content-length"]
        await send({**parts[0], "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


def test_a_stop_met_after_the_last_exchange_is_passed_on(tmp_path: Path) -> None:
    """A part that ends at once with its stop reports it as it leaves."""
    world = world_under(tmp_path / "world")
    with open_priced(world, ROWS, workers=2) as run:
        crew = TaskCrew(run, world, asyncio.TaskGroup())
        gathered = coordinator.open_gathering(open_rounds(run), 1, crew, refuse_to_ask)
        part = worker.open_part(run.run_id, 1, run.settings)
        assert part is not None
        part.run.control.stop_run(StopReason.BALANCE)
        part.close()
        assert gathered.work.look(run.run_id).stops == {WHOLE_RUN: StopReason.BALANCE}


def test_a_fault_of_the_runs_own_helper_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody takes part, the run asks by itself, and that fails: it is told, not begun again."""
    monkeypatch.setattr(coordinator, "ALONE_AFTER_S", -1)
    world = world_under(tmp_path / "world")

    class Nobody:
        async def start(self, part: int) -> None:
            """Start nothing."""

        async def came_to_nothing(self, _: int) -> bool:
            return False

    async def gather(run: ScreeningRun) -> None:
        gathered = coordinator.open_gathering(open_rounds(run), 1, Nobody(), refuse_to_ask)
        await coordinator.call_parts(gathered)
        await coordinator.ask_parts(gathered)

    failed = pytest.raises(AssertionError, match="asked by the run's own process")
    with open_priced(world, ROWS, workers=2) as run, failed:
        asyncio.run(asyncio.wait_for(gather(run), 60))


def test_shards_are_offered_in_order_however_often(tmp_path: Path) -> None:
    """A later offer comes after an earlier one; an offer that is made twice counts once."""
    with open_journal(tmp_path) as journal:
        work = SharedWork.of(journal)
        work.lay_out("run", [("b", "karma"), ("a", "karma")])
        work.lay_out("run", [("c", "karma")])
        work.lay_out("run", [("c", "karma")])
        work.lay_out("run", [("d", "karma")], gathered=["b"])
        assert [work.take("run", "karma") for _ in range(4)] == ["a", "c", "d", None]
        assert max(shard_places(journal)) < 10, "places stay small however many offers there are"


def shard_places(journal: Journal) -> list[int]:
    """Return the places of the shards that are left."""
    with journal.engine.connect() as connection:
        return list(connection.execute(select(shards.c.place)).scalars())


def test_a_part_that_comes_as_the_run_lets_go_just_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the run shared is gone by then; that is no fault of the machine's settings."""
    world = world_under(tmp_path / "world")
    with open_priced(world, ROWS, workers=2) as run:
        crew = TaskCrew(run, world, asyncio.TaskGroup())
        gathered = coordinator.open_gathering(open_rounds(run), 1, crew, refuse_to_ask)
        join = SharedWork.join

        def join_late(work: SharedWork, run_id: str, part: int) -> str | None:
            session = join(work, run_id, part)
            asyncio.run(coordinator.let_go(gathered))
            return session

        monkeypatch.setattr(SharedWork, "join", join_late)
        assert worker.open_part(run.run_id, 2, run.settings) is None


def test_what_a_lost_part_had_in_hand_is_taken_up_again(tmp_path: Path) -> None:
    """Nothing answered is paid for twice, and what it had been answered is the run's own."""
    world = world_under(tmp_path / "world")
    world.sandbox.latency = Latency(fixed(30), 0)  # so that it is lost while it asks
    shards: list[str] = []

    def lose(crew: TaskCrew, part: int, name: str) -> None:
        shards.append(name)
        if part == 1 and crew.begun.count(1) == 1 and shards.count(name) == 1:
            loop = asyncio.get_running_loop()
            loop.call_later(0.05, lambda: loop.create_task(_kill_once(crew)))

    async def _kill_once(crew: TaskCrew) -> None:
        if 1 in crew.open and crew.begun.count(1) == 1:
            await crew.kill(1)

    night, crew = screen_in_parts(world, ROWS, workers=2, on_shard=lose)
    assert crew.begun.count(1) > 1
    assert len(shards) > len(set(shards))
    assert night.report["state"] == "completed"
    with open_journal(world.folder / "home") as journal:
        calls = [row for block in journal.runs.calls(night.report["run_id"]) for row in block]
    answered = [(row.check, row.subject) for row in calls if row.state == "answered"]
    assert len(answered) == len(set(answered))
    assert sum(row.cost_micro or 0 for row in calls) == to_micro(
        Decimal(night.report["cost"]["total"])
    )
    for numbers in night.report["checks"].values():
        assert numbers["reused"] == 0
        assert numbers["pending"] == 0


@given(
    st.lists(st.lists(st.integers(-1, 11), min_size=2, max_size=2), min_size=1, max_size=20),
)
def test_what_waits_for_each_other_is_one_family(rows: list[list[int]]) -> None:
    """Two lookups of one row are of one family, and a family is never more than is linked."""
    lookups = np.array(rows, dtype=np.int32)
    found = families(Chains(lookups, np.zeros(len(rows), dtype=bool), ("bvn", "phone"), 12))
    linked = {number: {number} for number in range(12)}
    for row in rows:
        asked = [number for number in row if number >= 0]
        merged = set().union(*(linked[number] for number in asked)) if asked else set()
        for number in merged:
            linked[number] = merged
    for number, others in linked.items():
        assert {int(each) for each in np.flatnonzero(found == found[number])} == others


def test_a_part_that_is_stopped_and_lives_ends_the_run(tmp_path: Path) -> None:
    """A suspended process keeps its lock; without a sign of it the run is given up, resumably."""
    world = world_under(tmp_path / "world", outage_give_up="PT2S")

    def suspend(crew: TaskCrew, part: int, _: str) -> None:
        if part == 1 and part in crew.books:
            for window in crew.open[part].rounds.session.windows.values():  # type: ignore[union-attr]
                cast("AdaptiveCap", window._cap).paused_until = 1e9
            crew.open[part].run.control.silence.give_up_after_s = None

    night, _ = screen_in_parts(world, ROWS, workers=2, on_shard=suspend)
    assert (night.report["state"], night.report["stop_reason"]) == ("stopped", "outage")
    assert any("what the run's workers ask" in notice for notice in night.report["notices"])
    again = world.screen(run=night.report["run_id"])
    assert again.report["state"] == "completed"


def test_a_stopped_run_does_not_wait_for_a_suspended_part(tmp_path: Path) -> None:
    """It holds its lock and never ends; what it has in flight is for the resume to settle."""
    world = world_under(tmp_path / "world", outage_give_up="PT1M")
    with open_priced(world, ROWS, workers=2) as run:

        async def stop(loop: VirtualLoop) -> float:
            crew = TaskCrew(run, world, asyncio.TaskGroup())
            gathered = coordinator.open_gathering(open_rounds(run), 1, crew, refuse_to_ask)
            gathered.work.join(run.run_id, 1)
            run.control.stop_run(StopReason.BALANCE)
            await coordinator.ask_parts(gathered)
            return loop.time()

        assert 60 <= run_virtually(stop) < 62
