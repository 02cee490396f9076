"""The runs this process has open, found by id: what tasks use in place of arguments with rows.

A task argument is never stored by the engine, but a run's resources do not belong in one either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from schemas.errors import NightscreenError

if TYPE_CHECKING:
    from collections.abc import Callable

    from steps.asking import Asking
    from steps.line import Line
    from steps.report import RowTally


class RunNotOpenError(NightscreenError):
    """A task was called outside the flow run that it belongs to."""


@dataclass(slots=True)
class LiveRun:
    """One open run; `asking` while it asks, `rows` once they are written.

    Attributes:
        signalled: the process was told to end while the run was open.
    """

    line: Line
    asking: Asking | None = None
    rows: RowTally | None = None
    signalled: bool = False


_RUNS: dict[str, LiveRun] = {}

asked_here: Callable[[str], bool] | None = None
"""Asks the person at this process's terminal to approve spending; None where nobody sits there."""

asking_person = False
"""True while that person is being asked, so that nothing else is drawn over the question."""


def put(line: Line) -> LiveRun:
    """Make a run known to the tasks of this process."""
    live = LiveRun(line)
    _RUNS[line.run_id] = live
    return live


def of(run_id: str) -> LiveRun:
    """Return an open run.

    Raises:
        RunNotOpenError: this process has no such run open.
    """
    if run_id not in _RUNS:
        raise RunNotOpenError(
            f"run {run_id} is not open in this process: tasks belong to the flow run that opened "
            "it; take the run up again with --run"
        )
    return _RUNS[run_id]


def asking_of(run_id: str) -> Asking:
    """Return what a run has open while it asks.

    Raises:
        RunNotOpenError: the run is not open here, or it is not asking.
    """
    asking = of(run_id).asking
    if asking is None:
        raise RunNotOpenError(f"run {run_id} is open, but it is not asking now")
    return asking


def forget(run_id: str) -> None:
    """Forget a run that was closed."""
    _RUNS.pop(run_id, None)


def newest() -> LiveRun | None:
    """Return the run opened last, for whoever shows its progress."""
    return next(reversed(_RUNS.values()), None)
