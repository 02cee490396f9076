"""Runs that ask person by person within the engine: each step a task run, watched and shown.

The steps and their order are in `operations/person_run.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from nightscreen.config.settings import read_settings
from nightscreen.operations.person_run import PersonRun, PersonSteps, run_people
from nightscreen.report import page  # noqa: F401 - as `load_last_stations` says
from nightscreen.schemas.api_runs import ApiRunParameters
from nightscreen.tasks.engine_run import EngineSteps
from nightscreen.tasks.error_boundary import sanitize_errors
from nightscreen.tasks.monitoring import paging_false_starts

if TYPE_CHECKING:
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
        self.run = work.run
        return work

    def write_all(self, run: PersonRun[Any, Any]) -> None:
        """Write the folder of a run that was cancelled."""
        run.close()


async def run_in_engine(
    kind: type[PersonRun[P, Any]], parameters: P
) -> dict[str, Any] | State[Any]:
    """Make a run of a kind as a flow, and return its report or what the engine is to be told."""
    steps = EnginePersonSteps()
    with sanitize_errors():
        with paging_false_starts(kind.name, parameters.run):
            settings = read_settings()
        report = await run_people(kind, parameters, settings, steps=steps)
        return report if steps.run.only_quotes else await steps.ended(report)
