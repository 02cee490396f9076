"""The live panel of a run on a terminal; plain lines now and then where there is none.

Numbers only, on stderr. The counting is in `calling.progress`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from nightscreen.schemas.money import naira_words
from nightscreen.tasks.open_run import screening_at_terminal
from nightscreen.tasks.terminal import AT_TERMINAL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from nightscreen.runs.screening_run import ScreeningRun

_REFRESH_S = 0.25
_FIRST_LINE_S = 2.0
_PLAIN_LINE_S = 10.0
_MINUTE_S = 60
_HOUR_S = 3600


@asynccontextmanager
async def show_panel() -> AsyncIterator[None]:
    """Show the newest run of this process while the body runs."""
    console = Console(stderr=True, highlight=False)
    keeper = _keep_live(console) if console.is_terminal else _keep_plain()
    task = asyncio.get_running_loop().create_task(keeper)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _keep_live(console: Console) -> None:
    """Redraw the panel in its place; it is gone when the run is over."""
    pace = TimeLeft()
    with Live(
        console=console, auto_refresh=False, transient=True, redirect_stdout=False
    ) as display:
        while True:
            await asyncio.sleep(_REFRESH_S)
            terminal = AT_TERMINAL.get()
            run = screening_at_terminal()
            if terminal is not None and terminal.is_asking:
                display.update("", refresh=True)
            elif run is not None:
                display.update(panel(run, pace), refresh=True)


async def _keep_plain() -> None:
    """Write what the batch needs, one line soon after, then one now and then."""
    pace = TimeLeft()
    due: float | None = None
    shown = -1
    while True:
        await asyncio.sleep(_REFRESH_S)
        run = screening_at_terminal()
        if run is None or run.quote is None:
            continue
        now = time.monotonic()
        if due is None:
            _write(opening_line(run))
            pace.left(0, 0)
            due = now + _FIRST_LINE_S
        elif now >= due and totals(run)["wanted"]:
            due = now + _PLAIN_LINE_S
            if totals(run)["done"] != shown:
                shown = totals(run)["done"]
                _write(plain_line(run, pace))


def _write(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def opening_line(run: ScreeningRun) -> str:
    """Return what a run is about to do, in one line."""
    now = totals(run)
    return (
        f"Run {run.run_id}: {run.rows_read:,} rows read, {run.rows_quarantined:,} in "
        f"quarantine; {now['wanted']:,} lookups to ask, {now['reused']:,} reused; "
        f"about {naira_words(now['expected'])}"
    )


class TimeLeft:
    """Estimates the time left from the lookups done since the first look."""

    def __init__(self) -> None:
        self._began: tuple[float, int] | None = None

    def left(self, done: int, wanted: int) -> str:
        """Return the time left in words."""
        now = time.monotonic()
        if self._began is None:
            self._began = (now, done)
        began, before = self._began
        if done <= before:
            return "unknown"
        return duration((wanted - done) * (now - began) / (done - before))


def duration(seconds: float) -> str:
    """Return seconds in words."""
    if seconds < _MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < _HOUR_S:
        return f"{seconds / _MINUTE_S:.0f} min"
    return f"{seconds / _HOUR_S:.1f} h"


def totals(run: ScreeningRun) -> dict[str, int]:
    """Return the run's numbers over all checks; money in micro-naira."""
    counts = list(run.progress.values())
    return {
        "wanted": sum(check.wanted for check in counts),
        "done": sum(check.done for check in counts),
        "answered": sum(check.paid + check.free for check in counts),
        "paid": sum(check.paid for check in counts),
        "failed": sum(check.failed for check in counts),
        "in_doubt": sum(check.in_doubt for check in counts),
        "reused": sum(check.reused for check in counts) + at_hand(run),
        "spent": sum(check.cost_micro for check in counts),
        "expected": 0 if run.quote is None else run.quote.expected_micro,
    }


def at_hand(run: ScreeningRun) -> int:
    """Return how many answers were already known when the batch was planned."""
    return 0 if run.plan is None else sum(counts.reused for counts in run.plan.checks.values())


def plain_line(run: ScreeningRun, pace: TimeLeft) -> str:
    """Return the state of a run in one line."""
    now = totals(run)
    return (
        f"{now['done']:,} of {now['wanted']:,} lookups done, reused {now['reused']:,}, "
        f"paid {now['paid']:,}, failed {now['failed']:,}, in doubt {now['in_doubt']:,}, "
        f"spent {naira_words(now['spent'])} of about {naira_words(now['expected'])}, "
        f"time left {pace.left(now['done'], now['wanted'])}, "
        f"balance {naira_words(run.wallet.balance_micro)}"
    )


def panel(run: ScreeningRun, pace: TimeLeft) -> Group:
    """Return the panel: a line for each check, then money and time; it fits 80 columns."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("check", no_wrap=True)
    for name in ("done", "of", "paid", "free", "failed", "doubt", "in flight", "spent"):
        table.add_column(name, justify="right", no_wrap=True)
    for check, counts in run.progress.items():
        numbers = (
            counts.done,
            counts.wanted,
            counts.paid,
            counts.free,
            counts.failed,
            counts.in_doubt,
        )
        table.add_row(
            check.replace("_", " "),
            *(f"{number:,}" for number in numbers),
            f"{counts.in_flight} of {counts.cap}",
            naira_words(counts.cost_micro).removesuffix(".00"),
        )
    now = totals(run)
    money = (
        f"answered {now['answered']:,}  reused {now['reused']:,}  "
        f"spent {naira_words(now['spent'])} of about {naira_words(now['expected'])}"
    )
    rest = (
        f"time left {pace.left(now['done'], now['wanted'])}  "
        f"balance {naira_words(run.wallet.balance_micro)}"
    )
    title = f"Run {run.run_id}  {run.rows_read:,} rows"
    return Group(*(Text(title), table, Text(money), Text(rest)))
