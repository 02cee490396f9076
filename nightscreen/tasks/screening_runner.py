"""Screening within the engine: each station a task run, watched, stopped and shared by its means.

The stations themselves and their order are in `runs/screening.py`. Tasks log numbers, which the
engine stores in clear.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from prefect import get_run_logger
from prefect.runtime import deployment, flow_run

from nightscreen.files.person import user_name
from nightscreen.ops.vitals import PAUSED, PLANNING, WRITING
from nightscreen.runs import screening
from nightscreen.runs.approval import may_spend
from nightscreen.runs.screening import Runner
from nightscreen.runs.screening_run import open_screening
from nightscreen.schemas.money import naira_words
from nightscreen.tasks.engine_run import EngineSteps, ask_check
from nightscreen.tasks.monitoring import paging_false_starts
from nightscreen.tasks.server import show_quote
from nightscreen.tasks.terminal import AT_TERMINAL
from nightscreen.tasks.workers import workers_started

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from nightscreen.calling.asking import Asking
    from nightscreen.config.parameters import ScreenBatch
    from nightscreen.config.settings import Settings
    from nightscreen.runs.screening_run import ScreeningRun
    from nightscreen.schemas.clock import Clock

_PHASES = {"plan": PLANNING, "write rows": WRITING}
"""The part of its work that a run comes to with a station."""


class EngineRunner(EngineSteps, Runner):
    """Carries a screening run's stations as task runs of the flow that it is made in.

    Args:
        batch: named where the run could not even begin.
        resumed: id of the run that is resumed, if any.
    """

    run: ScreeningRun

    def __init__(self, batch: str, resumed: str) -> None:
        super().__init__()
        self._batch = batch
        self._resumed = resumed

    async def open(self, parameters: ScreenBatch, settings: Settings, clock: Clock) -> ScreeningRun:
        """Open the run in a thread."""
        with paging_false_starts(self._batch, self._resumed):
            self.run = await asyncio.to_thread(open_screening, parameters, settings, clock=clock)
        return self.run

    def write_all(self, run: ScreeningRun) -> None:
        """Write the folder of a run that was cancelled."""
        screening.write_report(run, screening.write_rows(run))

    async def step(
        self,
        name: str,
        station: Callable[..., Any],
        *given: Any,  # noqa: ANN401 - as the station
        re_entered: bool = False,
    ) -> Any:  # noqa: ANN401 - as the station
        """Carry out one station as a task run and log its numbers."""
        self.at_work = _PHASES.get(name, self.at_work)
        done = await super().step(name, station, *given, re_entered=re_entered)
        run, logger = self.run, get_run_logger()
        if name == "take in":
            read, refused = run.rows_read, run.rows_quarantined
            logger.info("run %s: %d rows read, %d in quarantine", run.run_id, read, refused)
        elif name == "plan" and run.plan is not None:
            logger.info("%d lookups are to be asked", run.plan.needed)
        elif name == "price" and run.quote is not None:
            logger.info("expected to cost %s", naira_words(run.quote.expected_micro))
            await show_quote(run)
        elif name == "open books":
            await asyncio.to_thread(screening.load_last_stations)
        return done

    async def may_spend(self, run: ScreeningRun) -> bool:
        """Use an approval where there is one; ask whoever sits at the terminal."""
        self.at_work = PAUSED
        terminal = AT_TERMINAL.get()
        given = await asyncio.to_thread(
            may_spend,
            run,
            by=f"deployment {deployment.name}" if deployment.name else user_name(),
            deployment_id=deployment.id or flow_run.parent_deployment_id,
            ask_here=None if terminal is None else terminal.ask,
        )
        if not given:
            waits = "run %s waits for approval: nightscreen approve %s"
            get_run_logger().info(waits, run.run_id, run.run_id)
        return given

    @asynccontextmanager
    async def sharing(self, asking: Asking) -> AsyncIterator[None]:
        """Have workers ask too, where that is worth it."""
        async with workers_started(self.run, asking):
            yield

    async def ask(self, check: str, asking: Asking) -> None:
        """Ask a check's lookups as a task run."""
        await ask_check(check, asking)
