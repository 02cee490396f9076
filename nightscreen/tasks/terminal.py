"""The terminal that a run was started from, as a context variable; a worker's run has none.

It imports little, because Ctrl-C is handled only after this import.
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
    """The terminal of a command: shows the open run, asks for approval, and may stop the run.

    Attributes:
        run: the run that was opened last and is still open.
        ask: asks the user to approve spending; None without a terminal.
        interrupted: Ctrl-C came before a run was open: a run that opens later makes no calls.
    """

    def __init__(self) -> None:
        self.run: Run | None = None
        self.ask: Callable[[Approval], bool] | None = None
        self.interrupted = False


AT_TERMINAL: ContextVar[Terminal | None] = ContextVar("at_terminal", default=None)
"""The terminal of the command that this context belongs to; None in a worker."""


@contextmanager
def shown_at_terminal(run: Run) -> Iterator[None]:
    """Let the user at the terminal see and stop the run while the body runs."""
    terminal = AT_TERMINAL.get()
    if terminal is None:
        yield
        return
    if terminal.interrupted:
        run.stops.stop(StopReason.CANCELLED)
    previous, terminal.run = terminal.run, run
    try:
        yield
    finally:
        terminal.run = previous
