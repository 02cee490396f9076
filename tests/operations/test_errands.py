"""Runs beside screening: calls under the journal, retried by the table, told in one report."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from nightscreen.calling.caller import Caller
from nightscreen.calling.lookup_task import LookupTask
from nightscreen.calling.run import Run
from nightscreen.client import wire
from nightscreen.config.parameters import ScreenBatch
from nightscreen.config.settings import read_settings
from nightscreen.journal import open_journal
from nightscreen.operations.person_run import Person, PersonRun, ReportParts
from nightscreen.ops.doctor import diagnose
from nightscreen.ops.vitals import ASKING, WRITING, read_vitals
from nightscreen.report.page import summary_markdown
from nightscreen.runs.run import open_api_run
from nightscreen.runs.screening_run import open_screening
from nightscreen.sandbox.app import application
from nightscreen.sandbox.state import Sandbox
from nightscreen.schemas.api_runs import ApiRunParameters
from nightscreen.schemas.calls import CallResult, CallState, LookupStatus, ReserveRequest
from nightscreen.schemas.checks import Operation, SubjectKind
from nightscreen.schemas.errors import InputError, SettingsError
from nightscreen.schemas.stops import ADDRESS
from nightscreen.tasks.engine_run import EngineRunner
from nightscreen.tasks.monitoring import RunMonitor
from tests.journal.conftest import by_name

CUSTOMER = b"customer of ours"


def opened(
    folder: Path,
    operation: Operation,
    more: Mapping[str, Any] | None = None,
    **options: Any,  # noqa: ANN401 - parameters of a run
) -> Run:
    """Open a run of the operation's family, with more settings than the usual."""
    settings = read_settings(
        base_url="http://127.0.0.1:1", api_key="sandbox-key", home=folder / "home", **(more or {})
    )
    parameters = ApiRunParameters(output=str(folder / "out"), **options)
    return open_api_run(
        parameters, settings, flow="a_flow", operation=operation, identify=lambda _: ("calls", "")
    )


def made(
    run: Run, sandbox: Sandbox, work: Callable[[Caller], Awaitable[list[LookupTask]]]
) -> list[LookupTask]:
    """Make calls at the run's session against a sandbox in the same process."""

    async def in_a_session() -> list[LookupTask]:
        session = Caller(run=run, transport=httpx.ASGITransport(application(sandbox)))
        try:
            return await work(session)
        finally:
            await session.close()

    return asyncio.run(in_a_session())


class Errand(PersonRun[ApiRunParameters, Person]):
    """A run about nobody, whose calls a test makes by itself."""

    flow, name = "a_flow", "errand"
    operation, kind = Operation.LOAN_PRODUCTS, SubjectKind.PRODUCT

    def load_people(self) -> list[Person]:
        return []

    async def ask_person(self, caller: Caller, person: Person) -> bool:
        raise NotImplementedError

    def write(self) -> ReportParts:
        return ReportParts({})


def reported(run: Run, rows: int) -> dict[str, Any]:
    """Close a run that has read so many rows; return its report."""
    errand = Errand(run, ApiRunParameters())
    errand.rows_read = rows
    return errand.close()


async def _products(session: Caller) -> list[LookupTask]:
    task = session.task(wire.loan_products(), kind=SubjectKind.PRODUCT, subject=CUSTOMER)
    return [await session.make_call(task)]


def test_api_call_is_journaled_and_brings_its_reading(tmp_path: Path) -> None:
    """A call leaves a row in the journal and its answer with whoever asked."""
    run = opened(tmp_path, Operation.LOAN_PRODUCTS)
    (task,) = made(run, Sandbox(), _products)
    assert task.status in {LookupStatus.FREE, LookupStatus.PAID}
    assert task.reading is not None
    assert b"product_id" in task.reading.body
    (rows,) = run.journal.runs.calls(run.run_id)
    assert [(row.check, row.kind, row.state) for row in rows] == [
        ("loan_products", "product", "answered")
    ]
    report = reported(run, 1)
    assert (report["state"], report["cost"]["total"]) == ("completed", "0.00")
    assert (run.folder.path / "manifest.json").exists()
    page = (run.folder.path / "report.html").read_text("utf-8")
    assert "Complete: 1 of 1 row read." in page
    assert "Loan products" in page
    assert "<script" not in page
    shown = summary_markdown(report, "out/run")
    assert "| Calls made | 1 |" in shown
    assert "`out/run`" in shown
    run.close()


def test_calls_of_any_flow_wait_for_their_part_of_a_shared_cap(tmp_path: Path) -> None:
    """Where others have all of it nothing is sent; the call goes on once one of theirs settled."""
    settings = {"share_caps": True, "max_in_flight": {"loans": 1}}
    run, sandbox = opened(tmp_path, Operation.LOAN_PRODUCTS, settings), Sandbox()
    ask = ReserveRequest("loan_view", "loan", b"another loan", 0, None, 1)

    async def shared() -> LookupTask:
        with open_journal(tmp_path / "home") as other:
            other.askers.join("other", {"loans": 1})
            (grant,) = by_name(other, "other", [ask], run.caps)
            session = Caller(run=run, transport=httpx.ASGITransport(application(sandbox)))
            making = asyncio.create_task(_products(session))
            while run.stops.waiting is None:  # noqa: ASYNC110 - nothing is set when it waits
                await asyncio.sleep(0.01)
            assert sandbox.ledger.count == 0
            assert "MAX_IN_FLIGHT" in run.stops.waiting[0]
            settled = CallResult(grant.call_id, ask, CallState.NOT_SENT, 0)
            other.calls.settle("other", [settled])
            (task,) = await making
            await session.close()
        return task

    assert asyncio.run(shared()).reading is not None
    assert sandbox.ledger.count == 1
    run.close()


def test_a_run_is_withdrawn_unless_a_call_of_it_was_acted_on(tmp_path: Path) -> None:
    """What came to nothing leaves neither run nor folder; a free answer keeps both."""
    nothing = opened(tmp_path, Operation.LOAN_PRODUCTS)
    nothing.discard()
    assert nothing.journal.runs.find(nothing.run_id) is None
    assert not nothing.folder.path.exists()
    nothing.close()
    asked = opened(tmp_path, Operation.LOAN_PRODUCTS)
    made(asked, Sandbox(), _products)
    asked.discard()
    assert asked.journal.runs.find(asked.run_id) is not None
    assert asked.folder.path.exists()
    asked.close()


def test_only_a_run_of_the_same_flow_is_resumed(tmp_path: Path) -> None:
    """There is none, or it is of another flow: one line says so, and nothing is begun.

    At a wrong address a new run is refused in a line; one that is resumed is there already, and a
    report says how it ended. What a killed quote left, rows of customers, goes with either.
    """
    left = tmp_path / "home" / "quotes" / "20260101-000000-abcdef@4000000-abcdef012345"
    left.mkdir(parents=True)
    (left / "rows.csv").write_text("C-1\n")
    with pytest.raises(InputError, match="there is no run 20260101-000000-abcdef of a_flow"):
        opened(tmp_path, Operation.LOAN_PRODUCTS, run="20260101-000000-abcdef")
    new = opened(tmp_path, Operation.LOAN_PRODUCTS)
    assert not left.exists()
    new.stops.stop(ADDRESS)
    with pytest.raises(SettingsError, match="nothing was spent"):
        new.refuse_wrong_address()
    new.close()
    with pytest.raises(InputError, match=f"there is no run {new.run_id} of screen_batch"):
        open_screening(ScreenBatch(run=new.run_id), new.settings)
    resumed = opened(tmp_path, Operation.LOAN_PRODUCTS, run=new.run_id)
    resumed.stops.stop(ADDRESS)
    resumed.refuse_wrong_address()
    report = reported(resumed, 0)
    assert (report["state"], report["stop_reason"]) == ("stopped", "outage")
    resumed.close()


def test_a_run_of_any_flow_gives_signs_of_life(tmp_path: Path) -> None:
    """Phase, calls and money are in its file while it works, and the doctor reads them there."""
    run = opened(tmp_path, Operation.LOAN_PRODUCTS, max_spend="500", deadline="06:00")
    live = EngineRunner()
    live.run = run
    seen: list[dict[str, Any]] = []

    async def lived() -> None:
        watch = RunMonitor(run, live.phase)
        seen.append(await watch.look())
        session = Caller(run=run, transport=httpx.ASGITransport(application(Sandbox())))
        live.client, live.at_work = session.client, ASKING
        task = session.task(wire.loan_products(), kind=SubjectKind.PRODUCT, subject=b"p" * 16)
        await session.make_call(task)
        seen.append(await watch.look())
        ask = partial(diagnose, run.settings, run.run_id, diagnosing=lambda _: None)
        found = await asyncio.to_thread(ask)
        assert found.run is not None
        assert (found.run["flow"], found.run["phase"]) == ("a_flow", "asking")
        assert found.run["deadline_at"] == run.stops.deadline_at
        assert found.run["checks"]["loan_products"]["answered"] == 1
        await session.close()
        live.client, live.at_work = None, WRITING
        seen.append(await watch.look())

    asyncio.run(lived())
    assert [signs["phase"] for signs in seen] == ["reading", "asking", "writing"]
    assert seen[1]["checks"]["loan_products"]["done"] == 1
    assert read_vitals(run.settings.home, run.run_id) == seen[-1]
    run.close()
