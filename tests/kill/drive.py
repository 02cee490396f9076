"""The line below the flow, start to end, for tests and measurements: no engine, one process.

As a program it takes a JSON document of settings and parameters on its command line and writes the
report to stdout; tests kill it. Expectations do not belong here.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightscreen.schemas.parameters import ScreenBatch
from nightscreen.schemas.settings import Settings, read_settings
from nightscreen.steps.approval import may_spend
from nightscreen.steps.calling.funding_rounds import (
    ask_again,
    ask_shard,
    next_round,
    open_rounds,
    take_closing_balance,
    take_opening_balance,
)
from nightscreen.steps.calling.waiting import wait_and_resume
from nightscreen.steps.finalize import write_report, write_rows
from nightscreen.steps.screening_run import make_plan, make_price, open_screening, read_input
from nightscreen.storage.clock import system_clock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    import httpx

    from nightscreen.schemas.approvals import Approval
    from nightscreen.steps.calling.funding_rounds import FundingRounds
    from nightscreen.steps.screening_run import ScreeningRun
    from nightscreen.storage.clock import Clock

    Steer = Callable[[FundingRounds], Awaitable[None]]


@dataclass(slots=True)
class Driven:
    """What a run came to: its report and its run, closed."""

    report: dict[str, Any]
    run: ScreeningRun


def settings_for(home: Path, url: str, api_key: str, **more: object) -> Settings:
    """Return settings for a sandbox, with as many in flight as is said."""
    return read_settings(home=home, base_url=url, api_key=api_key, **more)


async def ask_everything(asking: FundingRounds) -> None:
    """Open the books, ask round by round, close the books."""
    await take_opening_balance(asking)
    while shards := next_round(asking):
        async with asyncio.TaskGroup() as group:
            for names in shards.values():
                for name in names:
                    group.create_task(ask_shard(asking, name))
    await take_closing_balance(asking)


async def _asked(
    run: ScreeningRun, steer: Steer | None, transport: httpx.AsyncBaseTransport | None
) -> None:
    """Ask until nothing is left, trying again after stops that may pass."""
    while True:
        asking = open_rounds(run, transport=transport)
        steering = None if steer is None else asyncio.ensure_future(steer(asking))
        try:
            await ask_everything(asking)
        finally:
            if steering is not None:
                steering.cancel()
                await asyncio.wait([steering])
            await asking.close()
        if not await wait_and_resume(run, partial(ask_again, run)):
            return


def screen(
    parameters: ScreenBatch,
    settings: Settings,
    *,
    steer: Steer | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
    clock: Clock = system_clock,
    runner: Callable[[Coroutine[Any, Any, None]], None] = asyncio.run,
    ask_here: Callable[[Approval], bool] | None = None,
) -> Driven:
    """Carry a batch along the line and return what it came to.

    Args:
        parameters: what to screen.
        settings: where and how.
        steer: runs beside the asking, to turn something in mid-run.
        transport: stands in for the network.
        clock: the present instant.
        runner: runs the asking.
        ask_here: stands in for a person at the terminal.
    """
    run = open_screening(parameters, settings, clock=clock)
    try:
        read_input(run)
        make_plan(run)
        make_price(run)
        if may_spend(run, by="tester", ask_here=ask_here):
            runner(_asked(run, steer, transport))
        rows = write_rows(run)
        return Driven(write_report(run, rows), run)
    finally:
        run.close()


def main() -> None:
    """Screen as the command line says."""
    told = json.loads(sys.argv[1])
    given = told["settings"]
    settings = settings_for(
        Path(given.pop("home")), given.pop("url"), given.pop("api_key"), **given
    )
    driven = screen(ScreenBatch(**told["parameters"]), settings)
    sys.stdout.write(json.dumps(driven.report) + "\n")


if __name__ == "__main__":
    main()
