"""Who typed a command, found through the context: a run that a worker opens has nobody.

It imports little, since a command is ready for Ctrl-C only after it.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from nightscreen.schemas.stops import StopReason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nightscreen.calling.run import Run
    from nightscreen.schemas.approvals import Approval


class Terminal:
    """Who typed the command: sees the run that is open, is asked, and may stop it.

    Attributes:
        run: the run that was opened last and is still open.
        ask: asks the person to approve spending; None where nobody sits there.
        interrupted: Ctrl-C came before a run was open: one that opens all the same asks nothing.
    """

    def __init__(self) -> None:
        self.run: Run | None = None
        self.ask: Callable[[Approval], bool] | None = None
        self.interrupted = False


AT_TERMINAL: ContextVar[Terminal | None] = ContextVar("at_terminal", default=None)
"""Who typed the command that this context belongs to; None in a worker."""


@contextmanager
def shown_at_terminal(run: Run) -> Iterator[None]:
    """Let whoever typed the command see the run and stop it while the body runs."""
    terminal = AT_TERMINAL.get()
    if terminal is None:
        yield
        return
    if terminal.interrupted:
        run.stops.stop(StopReason.CANCELLED)
    before, terminal.run = terminal.run, run
    try:
        yield
    finally:
        terminal.run = before
