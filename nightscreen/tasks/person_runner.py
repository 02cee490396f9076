"""Runs that ask person by person within the engine: each step a task run, watched and shown.

The steps and their order are in `operations/person_run.py`.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from nightscreen.config.settings import read_settings
from nightscreen.operations.person_run import PersonRun, PersonSteps, run_people
from nightscreen.schemas.api_runs import ApiRunParameters
from nightscreen.tasks.error_boundary import sanitize_errors
from nightscreen.tasks.monitoring import paging_false_starts
from nightscreen.tasks.open_run import EngineSteps, closed_if_cancelled, ended
from nightscreen.tasks.run_in_engine import OpenApiRun

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from prefect.client.schemas.objects import State

    from nightscreen.config.settings import Settings
    from nightscreen.schemas.clock import Clock

P = TypeVar("P", bound=ApiRunParameters)


class EnginePersonSteps(EngineSteps, PersonSteps):
    """Carries the steps of a run that asks person by person as task runs."""

    async def open(
        self, kind: type[PersonRun[P, Any]], parameters: P, settings: Settings, clock: Clock
    ) -> PersonRun[P, Any]:
        """Open the run; one that could not even begin is reported."""
        with paging_false_starts(kind.name, parameters.run):
            work = await super().open(kind, parameters, settings, clock)
        self.open_run = OpenApiRun(work.run)
        return work

    @asynccontextmanager
    async def asking(self, run: PersonRun[Any, Any]) -> AsyncIterator[None]:
        """Leave a complete folder of what was done where the run is cancelled."""
        async with closed_if_cancelled(run.close):
            yield


async def run_in_engine(
    kind: type[PersonRun[P, Any]], parameters: P
) -> dict[str, Any] | State[Any]:
    """Make a run of a kind as a flow, and return its report or what the engine is to be told."""
    steps = EnginePersonSteps()
    with sanitize_errors():
        with paging_false_starts(kind.name, parameters.run):
            settings = read_settings()
        report = await run_people(kind, parameters, settings, steps=steps)
        if steps.open_run.run.only_quotes:
            return report
        return await ended(steps.open_run, report)
