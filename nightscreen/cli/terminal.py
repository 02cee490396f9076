"""Progress of a run on stderr, and the question whether to spend.

`runs.approval` decides whether approval is needed. Without a terminal, or after a no, the run ends
and waits for `nightscreen approve`.
"""

from __future__ import annotations

import asyncio
import select
import sys
import time
from typing import TYPE_CHECKING

from nightscreen.cli.output import say, view
from nightscreen.config.settings import read_settings
from nightscreen.journal.actor import has_users
from nightscreen.journal.opening import open_read_only
from nightscreen.report.format import lasting
from nightscreen.runs.screening_run import ScreeningRun
from nightscreen.schemas.money import naira_words
from nightscreen.tasks.terminal import AT_TERMINAL

if TYPE_CHECKING:
    from nightscreen.calling.run import Run
    from nightscreen.config.settings import Settings
    from nightscreen.schemas.approvals import Approval


_LOOK_S = 0.25  # how often to look for progress, an answer or a stop
_LINE_EVERY_S = 10.0  # a choice: six lines a minute; more would fill log files


async def show_progress() -> None:
    """Show the progress of this process's newest run, until cancelled.

    The first line says what the batch needs; later lines follow when something was done.
    """
    terminal = AT_TERMINAL.get()
    while terminal is not None:
        run = terminal.run
        if run is None or (isinstance(run, ScreeningRun) and run.quote is None):
            await asyncio.sleep(_LOOK_S)
            continue
        if isinstance(run, ScreeningRun):
            say(_needed(run))
        began_s, done_at_start = time.monotonic(), _done(run)
        shown = done_at_start
        while terminal.run is run:
            await asyncio.sleep(_LINE_EVERY_S)
            if terminal.run is run and (done := _done(run)) != shown:
                shown = done
                say(_so_far(run, (time.monotonic() - began_s) / max(1, done - done_at_start)))


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
    total = {name: sum(getattr(check, name) for check in checks) for name in names}
    left = lasting((total["wanted"] - total["done"]) * seconds_each)
    return (
        f"{total['done']:,} of {total['wanted']:,} done, paid {total['paid']:,}, failed "
        f"{total['failed']:,}, in doubt {total['in_doubt']:,}, in flight {total['in_flight']:,}, "
        f"spent {naira_words(total['cost_micro'])}, "
        f"balance {naira_words(run.wallet.balance_micro)}, "
        f"time left {left}"
    )


_YES = frozenset({"y", "yes"})


def ask_on_terminal() -> None:
    """Ask for this process's approvals at the terminal, if there is one.

    Where the desk has users, one of them approves there instead.
    """
    terminal = AT_TERMINAL.get()
    if terminal is not None:
        is_terminal = sys.stdin.isatty() and sys.stderr.isatty()
        terminal.ask = ask if is_terminal and not _desk_has_users(read_settings()) else None


def _desk_has_users(settings: Settings) -> bool:
    journal = open_read_only(settings)
    if journal is None:
        return False
    with journal:
        return has_users(journal)


def ask(approval: Approval) -> bool:
    """Ask whether to spend; Ctrl-C, an end of input and the approval timeout count as no."""
    terminal = AT_TERMINAL.get()
    if terminal is None or terminal.run is None:
        return False
    run = terminal.run
    timeout_s = run.settings.approval_timeout.total_seconds()
    if not isinstance(run, ScreeningRun):  # of a screening, its progress has said it
        say(view("person-quote", approval.quote).rstrip())
    sys.stderr.write(
        f"This run needs approval: {approval.reason}.\n"
        f"Spend up to {naira_words(approval.offered_micro)}? [y/N] "
    )
    sys.stderr.flush()
    until = time.monotonic() + timeout_s
    while time.monotonic() < until and run.stops.reason is None:
        if select.select([sys.stdin], [], [], _LOOK_S)[0]:
            return sys.stdin.readline().strip().casefold() in _YES
    sys.stderr.write("\n")
    return False
