"""Runs that ask person by person within the engine: each step a task run, watched and shown.

The steps and their order are in `operations/person_run.py`.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from nightscreen.config.settings import read_settings
from nightscreen.operations.person_run import PersonRun, Steps, run_people
from nightscreen.schemas.api_runs import ApiRunParameters
from nightscreen.tasks.error_boundary import sanitize_errors
from nightscreen.tasks.monitoring import paging_false_starts
from nightscreen.tasks.open_run import calls_settled, closed_if_cancelled, ended, watched
from nightscreen.tasks.run_in_engine import OpenApiRun
from nightscreen.tasks.stations import carry_out

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from prefect.client.schemas.objects import State

    from nightscreen.calling.caller import Caller
    from nightscreen.config.settings import Settings
    from nightscreen.schemas.clock import Clock

P = TypeVar("P", bound=ApiRunParameters)


class EngineSteps(Steps):
    """Carries a run's steps as task runs of the flow that it is made in.

    Attributes:
        open_run: the run as its tasks are handed it, once it is open.
    """

    open_run: OpenApiRun

    async def open(
        self, kind: type[PersonRun[P, Any]], parameters: P, settings: Settings, clock: Clock
    ) -> PersonRun[P, Any]:
        """Open the run; one that could not even begin is reported."""
        with paging_false_starts(kind.name, parameters.run):
            work = await super().open(kind, parameters, settings, clock)
        self.open_run = OpenApiRun(work.run)
        return work

    @asynccontextmanager
    async def watching(self, work: PersonRun[Any, Any]) -> AsyncIterator[None]:  # noqa: ARG002 - open_run has it
        """Watch over the run, and let signals and whoever typed the command stop it."""
        async with watched(self.open_run):
            yield

    @asynccontextmanager
    async def asking(self, work: PersonRun[Any, Any]) -> AsyncIterator[None]:
        """Leave a complete folder of what was done where the run is cancelled."""
        async with closed_if_cancelled(work.close):
            yield

    @asynccontextmanager
    async def calling(self, caller: Caller) -> AsyncIterator[None]:
        """Let the run's tasks call, and settle what is in flight however the body ends."""
        async with calls_settled(self.open_run, caller):
            yield

    async def step(self, name: str, station: Callable[[], Any], *, re_entered: bool = False) -> Any:  # noqa: ANN401 - as the station
        """Carry out one step as a task run."""
        return await carry_out(self.open_run, name, station, is_retried=re_entered)


async def run_in_engine(
    kind: type[PersonRun[P, Any]], parameters: P
) -> dict[str, Any] | State[Any]:
    """Make a run of a kind as a flow, and return its report or what the engine is to be told."""
    steps = EngineSteps()
    with sanitize_errors():
        with paging_false_starts(kind.name, parameters.run):
            settings = read_settings()
        report = await run_people(kind, parameters, settings, steps=steps)
        if steps.open_run.run.only_quotes:
            return report
        return await ended(steps.open_run, report)
