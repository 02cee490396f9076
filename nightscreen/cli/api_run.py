"""Flows beside screening by hand: prepare the engine, show progress, return the right exit status.

Each command's module has its options and prints the result.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from nightscreen.cli.output import print_json
from nightscreen.cli.screen import EXIT_BY_STATE, graceful_sigint, prepare_engine
from nightscreen.schemas.money import naira_words

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from nightscreen.tasks.run_in_engine import OpenRun

_LOOK_S = 0.25
_TELL_EVERY_S = 10.0


def run_flow(
    make: Callable[[], Awaitable[Any]],
    tell: Callable[[Mapping[str, Any]], None],
    *,
    json_output: bool,
) -> int:
    """Run a flow by hand and return the exit status.

    Args:
        make: imports the flow and starts it; called once the engine is ready.
        tell: prints the report for people.
        json_output: print the report as JSON instead, and nothing else.
    """
    with graceful_sigint():
        prepare_engine()
        report: dict[str, Any] = asyncio.run(_under_way(make))
    if json_output:
        print_json(report)
    else:
        tell(report)
    return EXIT_BY_STATE.get(report["state"], 1)


async def _under_way(make: Callable[[], Awaitable[Any]]) -> dict[str, Any]:
    async with _progress_shown():
        report: dict[str, Any] = await make()
        return report


@asynccontextmanager
async def _progress_shown() -> AsyncIterator[None]:
    """Write a line on stderr now and then while the body runs."""
    teller = asyncio.get_running_loop().create_task(_print_progress())
    try:
        yield
    finally:
        teller.cancel()
        await asyncio.wait([teller])


async def _print_progress() -> None:
    from nightscreen.tasks.logs import in_json
    from nightscreen.tasks.terminal import AT_TERMINAL

    shown = ""
    waited_s = _TELL_EVERY_S
    while True:
        await asyncio.sleep(_LOOK_S)
        waited_s += _LOOK_S
        terminal = AT_TERMINAL.get()
        run = None if terminal is None else terminal.run
        if run is None or waited_s < _TELL_EVERY_S or in_json():
            continue
        now = progress_line(run)
        if now != shown:
            shown, waited_s = now, 0.0
            sys.stderr.write(f"{now}\n")
            sys.stderr.flush()


def progress_line(opened: OpenRun[Any]) -> str:
    """Return the state of a run in one line; numbers only."""
    run = opened.run
    counts = list(run.progress.values())
    done, wanted = sum(count.done for count in counts), sum(count.wanted for count in counts)
    spent = sum(count.cost_micro for count in counts)
    return (
        f"Run {run.run_id}: {done:,} of {wanted:,} done, spent {naira_words(spent)}, "
        f"balance {naira_words(run.wallet.balance_micro)}"
    )
