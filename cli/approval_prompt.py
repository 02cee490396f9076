"""Approval of spending on the terminal: a question, an answer, and a time after which it is no.

Whether it is needed is decided in `steps.approval`; without a terminal, or after a no, the run ends
and waits for `nightscreen approve`.
"""

from __future__ import annotations

import select
import sys
import time
from typing import TYPE_CHECKING

from nightscreen.schemas.money import naira_words
from nightscreen.tasks import approval, run_registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from nightscreen.schemas.approvals import Approval

_LOOK_S = 0.3
_YES = frozenset({"y", "yes"})


def ask_on_terminal() -> None:
    """Have this process's approvals asked here, where a person sits at the terminal."""
    approval.ask_here(ask if sys.stdin.isatty() and sys.stderr.isatty() else None)


def ask(asked: Approval) -> bool:
    """Ask whether to spend; Ctrl-C, an end of input and the approval timeout are a no."""
    run = run_registry.newest_screening()
    timeout_s = 0.0 if run is None else run.line.settings.approval_timeout.total_seconds()
    run_registry.asking_person = True
    try:
        time.sleep(_LOOK_S)  # the panel clears its lines meanwhile
        sys.stderr.write(
            f"This run needs approval: {asked.reason}.\n"
            f"Spend up to {naira_words(asked.offered_micro)}? [y/N] "
        )
        sys.stderr.flush()
        return _answer(time.monotonic() + timeout_s, _stopped)
    finally:
        run_registry.asking_person = False


def _stopped() -> bool:
    run = run_registry.newest_screening()
    return run is None or run.line.control.stop is not None


def _answer(until: float, stopped: Callable[[], bool]) -> bool:
    while time.monotonic() < until and not stopped():
        if select.select([sys.stdin], [], [], _LOOK_S)[0]:
            return sys.stdin.readline().strip().casefold() in _YES
    sys.stderr.write("\n")
    return False
