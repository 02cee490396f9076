"""Approval of spending on the terminal: a question, an answer, and a time after which it is no.

`runs.approval` decides whether it is needed. Without a terminal, or after a no, the run ends and
waits for `nightscreen approve`.
"""

from __future__ import annotations

import select
import sys
import time
from typing import TYPE_CHECKING

from nightscreen.cli.env_settings import settings_of_command
from nightscreen.journal.read_only import look_into
from nightscreen.schemas.money import naira_words
from nightscreen.tasks.terminal import AT_TERMINAL

if TYPE_CHECKING:
    from nightscreen.config.settings import Settings
    from nightscreen.schemas.approvals import Approval

_LOOK_S = 0.3
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
    look = look_into(settings.home, url=settings.journal_url)
    if look is None:
        return False
    with look:
        return look.has_users()


def ask(asked: Approval) -> bool:
    """Ask whether to spend; Ctrl-C, an end of input and the approval timeout are a no."""
    terminal = AT_TERMINAL.get()
    if terminal is None or terminal.run is None:
        return False
    run = terminal.run.run
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
