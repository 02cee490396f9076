"""The progress of a run on stderr: a panel on a terminal, lines now and then where there is none.

Numbers only. The counting is in `calling.progress`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from nightscreen.cli.output import duration
from nightscreen.runs.screening_run import ScreeningRun
from nightscreen.schemas.money import naira_words
from nightscreen.tasks.logs import in_json
from nightscreen.tasks.terminal import AT_TERMINAL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from nightscreen.calling.run import Run

_LOOK_S = 0.25
_FIRST_LINE_S = 2.0
_LINE_EVERY_S = 10.0


@asynccontextmanager
async def show_progress() -> AsyncIterator[None]:
    """Show the newest run of this process while the body runs; nothing where the log is in JSON."""
    console = Console(stderr=True, highlight=False)
    shown = _quiet() if in_json() else _panel(console) if console.is_terminal else _lines()
    task = asyncio.get_running_loop().create_task(shown)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _quiet() -> None:
    """Show nothing."""


def _run() -> Run | None:
    """Return the run that is open, once there is something to count."""
    terminal = AT_TERMINAL.get()
    run: Run | None = None if terminal is None or terminal.run is None else terminal.run.run
    return None if isinstance(run, ScreeningRun) and run.quote is None else run


async def _panel(console: Console) -> None:
    """Redraw the panel in its place; it is gone when the run is over."""
    pace = _Pace()
    with Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False) as live:
        while True:
            await asyncio.sleep(_LOOK_S)
            terminal, run = AT_TERMINAL.get(), _run()
            if terminal is not None and terminal.is_asking:
                live.update("", refresh=True)
            elif run is not None:
                live.update(_drawn(run, pace), refresh=True)


async def _lines() -> None:
    """Write what a batch needs at once, then a line now and then where something was done."""
    pace, due, said = _Pace(), 0.0, -1
    while True:
        await asyncio.sleep(_LOOK_S)
        run = _run()
        if run is None:
            continue
        now = _totals(run)
        if not due:
            due = time.monotonic() + _FIRST_LINE_S
            pace.left(0, 0)
            if isinstance(run, ScreeningRun):
                _say(
                    f"Run {run.run_id}: {run.rows_read:,} rows read, {run.rows_quarantined:,} in "
                    f"quarantine; {now['wanted']:,} lookups needed, {now['reused']:,} reused; "
                    f"about {naira_words(now['expected'])}"
                )
        elif time.monotonic() >= due and now["wanted"] and now["done"] != said:
            due, said = time.monotonic() + _LINE_EVERY_S, now["done"]
            _say(
                f"{now['done']:,} of {now['wanted']:,} done, reused {now['reused']:,}, paid "
                f"{now['paid']:,}, failed {now['failed']:,}, in doubt {now['in_doubt']:,}, "
                f"{_money(run, now)}, time left {pace.left(now['done'], now['wanted'])}"
            )


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


class _Pace:
    """Estimates the time left from what was done since the first look."""

    def __init__(self) -> None:
        self._began: tuple[float, int] | None = None

    def left(self, done: int, wanted: int) -> str:
        """Return the time left in words."""
        now = time.monotonic()
        began, before = self._began = self._began or (now, done)
        if done <= before:
            return "unknown"
        return duration((wanted - done) * (now - began) / (done - before))


def _totals(run: Run) -> dict[str, int]:
    """Return the run's numbers over all checks; money in micro-naira."""
    names = ("wanted", "done", "paid", "free", "failed", "in_doubt", "reused", "cost_micro")
    counts = list(run.progress.values())
    totals = {name: sum(getattr(check, name) for check in counts) for name in names}
    totals["expected"] = 0
    if isinstance(run, ScreeningRun):
        totals["expected"] = 0 if run.quote is None else run.quote.expected_micro
        planned = {} if run.plan is None else run.plan.checks
        totals["reused"] += sum(check.reused for check in planned.values())
    return totals


def _money(run: Run, now: dict[str, int]) -> str:
    about = f" of about {naira_words(now['expected'])}" if now["expected"] else ""
    balance = naira_words(run.wallet.balance_micro)
    return f"spent {naira_words(now['cost_micro'])}{about}, balance {balance}"


def _drawn(run: Run, pace: _Pace) -> Group:
    """Return the panel: a line for each check, then money and time; it fits 80 columns."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("check", no_wrap=True)
    for name in ("done", "of", "paid", "free", "failed", "doubt", "in flight", "spent"):
        table.add_column(name, justify="right", no_wrap=True)
    for check, one in run.progress.items():
        numbers = (one.done, one.wanted, one.paid, one.free, one.failed, one.in_doubt)
        cells: list[Any] = [f"{number:,}" for number in numbers]
        cells += [f"{one.in_flight} of {one.cap}", naira_words(one.cost_micro).removesuffix(".00")]
        table.add_row(check.replace("_", " "), *cells)
    now = _totals(run)
    left = f"reused {now['reused']:,}, time left {pace.left(now['done'], now['wanted'])}"
    title = f"Run {run.run_id}  {run.rows_read:,} rows"
    return Group(Text(title), table, Text(_money(run, now)), Text(left))
