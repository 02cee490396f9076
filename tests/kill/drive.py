"""The line below the flow, start to end, for tests: no engine, one process.

Expectations do not belong here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from nightscreen.calling.asking import Asking
from nightscreen.config.parameters import ScreenBatch
from nightscreen.config.settings import Settings, read_settings
from nightscreen.runs.approval import may_spend
from nightscreen.runs.runner import Runner
from nightscreen.runs.screening import run_screening
from nightscreen.runs.screening_run import ScreeningRun
from nightscreen.schemas.approvals import Approval
from nightscreen.schemas.clock import Clock, system_clock
from tests.laws import Overseen, require_laws

Steer = Callable[[Asking], Awaitable[None]]
RunLoop = Callable[[Coroutine[Any, Any, dict[str, Any]]], dict[str, Any]]


@dataclass(slots=True)
class Driven:
    """What a run came to."""

    report: dict[str, Any]
    run: ScreeningRun  # the run, closed


def settings_for(home: Path, url: str, api_key: str, **more: object) -> Settings:
    """Return settings for a sandbox, with as many in flight as is said."""
    return read_settings(home=home, base_url=url, api_key=api_key, **more)


class Steered(Runner):
    """Carries a run in this process, with something that turns it in mid-run.

    Args:
        steer: runs beside the asking.
        ask_here: stands in for a person at the terminal.
    """

    run: ScreeningRun  # the run, once it is open

    def __init__(self, steer: Steer | None, ask_here: Callable[[Approval], bool] | None) -> None:
        self._steer = steer
        self._ask_here = ask_here

    async def open(self, opening: Callable[[], Any]) -> Any:  # noqa: ANN401 - the run
        """Open the run and keep it."""
        self.run = await super().open(opening)
        return self.run

    async def may_spend(self, run: ScreeningRun) -> bool:
        """Ask whoever stands in for a person."""
        return may_spend(run, by="tester", ask_here=self._ask_here)

    @asynccontextmanager
    async def calling(self, asking: Asking) -> AsyncIterator[None]:
        """Steer beside the calls."""
        steering = None if self._steer is None else asyncio.ensure_future(self._steer(asking))
        async with super().calling(asking):
            try:
                yield
            finally:
                if steering is not None:
                    steering.cancel()
                    await asyncio.wait([steering])


def screen(
    parameters: ScreenBatch,
    settings: Settings,
    *,
    steer: Steer | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
    clock: Clock = system_clock,
    run_loop: RunLoop = asyncio.run,
    ask_here: Callable[[Approval], bool] | None = None,
) -> Driven:
    """Carry a batch along the line and return what it came to.

    Args:
        parameters: what to screen.
        settings: where and how.
        steer: runs beside the asking, to turn something in mid-run.
        transport: stands in for the network.
        clock: the present instant.
        run_loop: runs it all.
        ask_here: stands in for a person at the terminal.
    """
    runner, began = Steered(steer, ask_here), clock()
    wire = None if transport is None else Overseen(transport, settings.home)
    screening = run_screening(parameters, settings, transport=wire, clock=clock, runner=runner)
    driven = Driven(run_loop(screening), runner.run)
    require_laws(driven.run.folder.path, settings, began, wire)
    return driven
