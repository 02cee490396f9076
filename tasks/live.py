"""The runs this process has open, found by id: what tasks use in place of arguments with rows.

A task argument is never stored by the engine, but a run's resources do not belong in one either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steps.asking import Asking
    from steps.line import Line
    from steps.report import RowTally


@dataclass(slots=True)
class LiveRun:
    """One open run; `asking` while it asks, `rows` once they are written."""

    line: Line
    asking: Asking | None = None
    rows: RowTally | None = None


_RUNS: dict[str, LiveRun] = {}


def put(line: Line) -> LiveRun:
    """Make a run known to the tasks of this process."""
    live = LiveRun(line)
    _RUNS[line.run_id] = live
    return live


def of(run_id: str) -> LiveRun:
    """Return an open run."""
    return _RUNS[run_id]


def asking_of(run_id: str) -> Asking:
    """Return what a run has open while it asks."""
    asking = _RUNS[run_id].asking
    if asking is None:
        raise KeyError(run_id)
    return asking


def forget(run_id: str) -> None:
    """Forget a run that was closed."""
    _RUNS.pop(run_id, None)


def newest() -> LiveRun | None:
    """Return the run opened last, for whoever shows its progress."""
    return next(reversed(_RUNS.values()), None)
