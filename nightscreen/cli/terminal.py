"""The person at the terminal of a run: progress on stderr, and the question whether to spend.

The counting is in `calling.stops`; `runs.approval` decides whether approval is needed. Without a
terminal, or after a no, the run ends and waits for `nightscreen approve`.
"""

from __future__ import annotations

import asyncio
import select
import sys
import time
from typing import TYPE_CHECKING

from nightscreen.cli.context import settings_of_command
from nightscreen.cli.output import duration, say
from nightscreen.journal.actor import has_users
from nightscreen.journal.opening import open_read_only
from nightscreen.runs.screening_run import ScreeningRun
from nightscreen.schemas.money import naira_words
from nightscreen.tasks.terminal import AT_TERMINAL

if TYPE_CHECKING:
    from nightscreen.calling.run import Run
    from nightscreen.config.settings import Settings
    from nightscreen.schemas.approvals import Approval


_LOOK_S = 0.25  # how soon progress is shown, and an answer or a stop noticed
_LINE_EVERY_S = 10.0  # a choice: six lines a minute; more would fill what keeps them


async def show_progress() -> None:
    """Show how far the newest run of this process has come, until it is cancelled.

    What a batch needs is written at once, then a line now and then where something was done.
    """
    terminal = AT_TERMINAL.get()
    while terminal is not None:
        run = terminal.run
        if run is None or (isinstance(run, ScreeningRun) and run.quote is None):
            await asyncio.sleep(_LOOK_S)
            continue
        if isinstance(run, ScreeningRun):
            say(_needed(run))
        began_s, before = time.monotonic(), _done(run)
        written = before
        while terminal.run is run:
            await asyncio.sleep(_LINE_EVERY_S)
            if terminal.run is run and (done := _done(run)) != written:
                written = done
                say(_so_far(run, (time.monotonic() - began_s) / max(1, done - before)))


def _done(run: Run) -> int:
    return sum(check.done for check in run.progress.values())


def _needed(run: ScreeningRun) -> str:
    wanted = sum(check.wanted for check in run.progress.values())
    reused = sum(check.reused for check in run.counts.values())
    expected = 0 if run.quote is None else run.quote.expected_micro
    return (
        f"Run {run.run_id}: {run.rows_read:,} rows read, {run.rows_quarantined:,} in quarantine; "
        f"{wanted:,} lookups needed, {reused:,} reused; about {naira_words(expected)}"
    )


def _so_far(run: Run, seconds_each: float) -> str:
    names = ("done", "wanted", "paid", "failed", "in_doubt", "in_flight", "cost_micro")
    checks = run.progress.values()
    now = {name: sum(getattr(check, name) for check in checks) for name in names}
    left = duration((now["wanted"] - now["done"]) * seconds_each)
    return (
        f"{now['done']:,} of {now['wanted']:,} done, paid {now['paid']:,}, failed "
        f"{now['failed']:,}, in doubt {now['in_doubt']:,}, in flight {now['in_flight']:,}, spent "
        f"{naira_words(now['cost_micro'])}, balance {naira_words(run.wallet.balance_micro)}, "
        f"time left {left}"
    )


_YES = frozenset({"y", "yes"})


def ask_on_terminal() -> None:
    """Have this process's approvals asked here, where a person sits at the terminal.

    Where the desk has users, one of them approves there.
    """
    terminal = AT_TERMINAL.get()
    if terminal is not None:
        sits_here = sys.stdin.isatty() and sys.stderr.isatty()
        terminal.ask = ask if sits_here and not _desk_has_users(settings_of_command()) else None


def _desk_has_users(settings: Settings) -> bool:
    look = open_read_only(settings)
    if look is None:
        return False
    with look:
        return has_users(look)


def ask(asked: Approval) -> bool:
    """Ask whether to spend; Ctrl-C, an end of input and the approval timeout are a no."""
    terminal = AT_TERMINAL.get()
    if terminal is None or terminal.run is None:
        return False
    run = terminal.run
    timeout_s = run.settings.approval_timeout.total_seconds()
    sys.stderr.write(
        f"This run needs approval: {asked.reason}.\n"
        f"Spend up to {naira_words(asked.offered_micro)}? [y/N] "
    )
    sys.stderr.flush()
    until = time.monotonic() + timeout_s
    while time.monotonic() < until and run.stops.reason is None:
        if select.select([sys.stdin], [], [], _LOOK_S)[0]:
            return sys.stdin.readline().strip().casefold() in _YES
    sys.stderr.write("\n")
    return False
