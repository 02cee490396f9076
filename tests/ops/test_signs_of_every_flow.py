"""Signs of life of runs beside screening: written by the same watch, read by the same doctor."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx

from nightscreen.calling.caller import Caller
from nightscreen.client import loans
from nightscreen.files.heartbeat import read_vitals
from nightscreen.ops.doctor import diagnose
from nightscreen.ops.vitals import ASKING, WRITING
from nightscreen.sandbox.app import application
from nightscreen.sandbox.state import Opening, Sandbox
from nightscreen.schemas.checks import Operation, SubjectKind
from nightscreen.tasks.engine_run import EngineSteps
from nightscreen.tasks.monitoring import RunMonitor
from tests.steps.test_errands import opened

if TYPE_CHECKING:
    from pathlib import Path


def test_a_run_of_any_flow_gives_signs_of_life(tmp_path: Path) -> None:
    """Phase, calls and money are in its file while it works, and the doctor reads them there."""
    run = opened(tmp_path, Operation.LOAN_PRODUCTS, max_spend="500", deadline="06:00")
    live = EngineSteps(run)
    seen: list[dict[str, Any]] = []

    async def lived() -> None:
        watch = RunMonitor(run, live.phase)
        seen.append(await watch.look())
        session = Caller(run=run, transport=httpx.ASGITransport(application(Sandbox(Opening()))))
        live.client, live.at_work = session.client, ASKING
        task = session.task(loans.products(), kind=SubjectKind.PRODUCT, subject=b"p" * 16)
        await session.make([task])
        seen.append(await watch.look())
        ask = partial(diagnose, run.settings, run.run_id, reaching=lambda _: None)
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
