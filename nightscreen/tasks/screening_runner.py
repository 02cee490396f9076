"""Screening within the engine: each station a task run, watched, stopped and shared by its means.

The stations themselves and their order are in `runs/screening.py`. Tasks log numbers, which the
engine stores in clear.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from prefect import get_run_logger

from nightscreen.ops.vitals import PAUSED, PLANNING, WRITING
from nightscreen.runs import screening
from nightscreen.runs.screening import Runner
from nightscreen.runs.screening_run import open_screening
from nightscreen.schemas.money import naira_words
from nightscreen.tasks.approval import approved
from nightscreen.tasks.monitoring import paging_false_starts
from nightscreen.tasks.open_run import EngineSteps, closed_if_cancelled
from nightscreen.tasks.run_in_engine import OpenScreening
from nightscreen.tasks.server import show_quote
from nightscreen.tasks.stations import ask_check
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

    Attributes:
        open_run: the run as its tasks are handed it, once it is open.
    """

    def __init__(self, batch: str, resumed: str) -> None:
        self._batch = batch
        self._resumed = resumed
        self.open_run: OpenScreening

    async def open(self, parameters: ScreenBatch, settings: Settings, clock: Clock) -> ScreeningRun:
        """Open the run in a thread."""
        with paging_false_starts(self._batch, self._resumed):
            run = await asyncio.to_thread(open_screening, parameters, settings, clock=clock)
            self.open_run = OpenScreening(run)
        return self.open_run.run

    @asynccontextmanager
    async def asking(self, run: ScreeningRun) -> AsyncIterator[None]:
        """Leave a complete folder of what was done by a run that is cancelled."""

        def close() -> None:
            screening.write_report(run, screening.write_rows(run))

        async with closed_if_cancelled(close):
            yield

    @asynccontextmanager
    async def calling(self, caller: Asking) -> AsyncIterator[None]:
        """Let the run's tasks ask, and settle what is in flight however the body ends."""
        self.open_run.asking = caller
        async with super().calling(caller.caller):
            yield

    async def step(
        self,
        name: str,
        station: Callable[..., Any],
        *given: Any,  # noqa: ANN401 - as the station
        re_entered: bool = False,
    ) -> Any:  # noqa: ANN401 - as the station
        """Carry out one station as a task run and log its numbers."""
        self.open_run.step = _PHASES.get(name, self.open_run.step)
        done = await super().step(name, station, *given, re_entered=re_entered)
        await self._say(name)
        return done

    async def _say(self, name: str) -> None:
        run, logger = self.open_run.run, get_run_logger()
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

    async def may_spend(self, run: ScreeningRun) -> bool:
        """Use an approval where there is one; ask whoever sits at the terminal."""
        self.open_run.step = PAUSED
        return await approved(run)

    @asynccontextmanager
    async def sharing(self, asking: Asking) -> AsyncIterator[None]:
        """Have workers ask too, where that is worth it."""
        async with workers_started(self.open_run, asking):
            yield

    async def ask(self, check: str, asking: Asking) -> None:  # noqa: ARG002 - open_run has it
        """Ask a check's lookups as a task run."""
        await ask_check(self.open_run, check)
