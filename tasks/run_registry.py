"""The runs this process has open, found by id: what tasks use in place of arguments with rows.

A task argument is never stored by the engine, but a run's resources do not belong in one either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from nightscreen.schemas.errors import NightscreenError
from nightscreen.schemas.stops import StopReason
from nightscreen.steps.ops.heartbeat import ASKING, PAUSED, READING, WRITING, phase_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from nightscreen.schemas.approvals import Approval
    from nightscreen.steps.api_runs.call_session import ApiRun, CallSession
    from nightscreen.steps.calling.coordinator import Gathering
    from nightscreen.steps.calling.funding_rounds import Asking
    from nightscreen.steps.control import Control
    from nightscreen.steps.ops.heartbeat import Run
    from nightscreen.steps.report.report_json import RowTally
    from nightscreen.steps.screening_run import ScreeningRun


class RunNotOpenError(NightscreenError):
    """A task was called outside the flow run that it belongs to."""


class Live(Protocol):
    """An open run of any flow, as whoever stops or shows it needs it.

    Attributes:
        signalled: the process was told to end while the run was open.
    """

    signalled: bool

    @property
    def run_id(self) -> str:
        """Return the run's id."""

    @property
    def control(self) -> Control:
        """Return what stops the run and counts its calls."""

    @property
    def opened(self) -> Run:
        """Return what the run has open."""

    @property
    def flow(self) -> str:
        """Return the flow it is a run of, as the journal has it."""

    @property
    def phase(self) -> str:
        """Return which part of its work the run is in."""

    @property
    def rows_read(self) -> int | None:
        """Return how many rows it has read, None where its flow counts none."""

    @property
    def only_quotes(self) -> bool:
        """Return whether the run ends with its quote, and leaves nothing."""

    async def cut(self) -> None:
        """Cut what is still in flight, so that it is written down as in doubt."""


@dataclass(slots=True)
class LiveRun:
    """One open run; `asking` while it asks, `rows` once they are written.

    Attributes:
        signalled: the process was told to end while the run was open.
        gathering: the parts it called, while they ask.
        sessions: how often it has called parts.
    """

    line: ScreeningRun
    asking: Asking | None = None
    rows: RowTally | None = None
    signalled: bool = False
    gathering: Gathering | None = None
    sessions: int = 0

    @property
    def run_id(self) -> str:
        """Return the run's id."""
        return self.line.run_id

    @property
    def control(self) -> Control:
        """Return what stops the run and counts its calls."""
        return self.line.control

    @property
    def opened(self) -> Run:
        """Return what the run has open."""
        return self.line

    @property
    def flow(self) -> str:
        """Return the flow it is a run of, as the journal has it."""
        return "screen_batch"

    @property
    def phase(self) -> str:
        """Return which part of its work the run is in."""
        return phase_of(self.line, asking=self.asking is not None, written=self.rows is not None)

    @property
    def rows_read(self) -> int | None:
        """Return how many rows it has read."""
        return self.line.rows_read

    @property
    def only_quotes(self) -> bool:
        """Return whether the run ends with its quote, and leaves nothing."""
        return self.line.parameters.quote_only

    async def cut(self) -> None:
        """Cut what is still in flight, so that it is written down as in doubt."""
        if self.asking is not None:
            await self.asking.client.aclose()


@dataclass(slots=True)
class LiveApiRun:
    """One open run beside screening; `desk` while it makes its calls.

    Attributes:
        work: what the flow's tasks share of it, made by its own line.
        signalled: the process was told to end while the run was open.
        called: its calls were begun.
    """

    run: ApiRun
    desk: CallSession | None = None
    work: Any = None
    signalled: bool = False
    called: bool = False

    @property
    def run_id(self) -> str:
        """Return the run's id."""
        return self.run.run_id

    @property
    def control(self) -> Control:
        """Return what stops the run and counts its calls."""
        return self.run.control

    @property
    def opened(self) -> Run:
        """Return what the run has open."""
        return self.run

    @property
    def flow(self) -> str:
        """Return the flow it is a run of, as the journal has it."""
        return self.run.flow

    @property
    def phase(self) -> str:
        """Return which part of its work the run is in."""
        if self.desk is not None:
            return ASKING
        if self.control.resting_since is not None:
            return PAUSED
        return WRITING if self.called else READING

    @property
    def rows_read(self) -> int | None:
        """Return nothing: these flows count customers and offers, each in its own way."""
        return None

    @property
    def only_quotes(self) -> bool:
        """Return whether the run ends with its quote, and leaves nothing."""
        return bool(getattr(self.run.parameters, "quote_only", False))

    async def cut(self) -> None:
        """Cut what is still in flight, so that it is written down as in doubt."""
        if self.desk is not None:
            await self.desk.client.aclose()


_RUNS: dict[str, LiveRun | LiveApiRun] = {}

asked_here: Callable[[Approval], bool] | None = None
"""Asks the person at this process's terminal to approve spending; None where nobody sits there."""

interrupted = False
"""True once Ctrl-C came before a run was open: one that opens all the same asks nothing."""

asking_person = False
"""True while that person is being asked, so that nothing else is drawn over the question."""


def register(line: ScreeningRun) -> LiveRun:
    """Make a run known to the tasks get_run this process."""
    live = LiveRun(line)
    _RUNS[line.run_id] = live
    _heed(live)
    return live


def register_api_run(run: ApiRun) -> LiveApiRun:
    """Make a run beside screening known to the tasks of this process."""
    live = LiveApiRun(run)
    _RUNS[run.run_id] = live
    _heed(live)
    return live


def _heed(live: Live) -> None:
    """Let a run ask nothing where it was interrupted before it was open."""
    if interrupted:
        live.control.stop_run(StopReason.CANCELLED)


def get_run(run_id: str) -> LiveRun:
    """Return an open screening run.

    Raises:
        RunNotOpenError: this process has no such run open.
    """
    found = _RUNS.get(run_id)
    if not isinstance(found, LiveRun):
        raise _not_open(run_id)
    return found


def errand_of(run_id: str) -> LiveApiRun:
    """Return an open run beside screening.

    Raises:
        RunNotOpenError: this process has no such run open.
    """
    found = _RUNS.get(run_id)
    if not isinstance(found, LiveApiRun):
        raise _not_open(run_id)
    return found


def _not_open(run_id: str) -> RunNotOpenError:
    return RunNotOpenError(
        f"run {run_id} is not open in this process: tasks belong to the flow run that opened it; "
        "resume the run with --run"
    )


def desk_of(run_id: str) -> CallSession:
    """Return what a run beside screening has open while it makes its calls.

    Raises:
        RunNotOpenError: the run is not open here, or it makes no calls now.
    """
    desk = errand_of(run_id).desk
    if desk is None:
        raise RunNotOpenError(f"run {run_id} is open, but it makes no calls now")
    return desk


def asking_of(run_id: str) -> Asking:
    """Return what a run has open while it asks.

    Raises:
        RunNotOpenError: the run is not open here, or it is not asking.
    """
    asking = get_run(run_id).asking
    if asking is None:
        raise RunNotOpenError(f"run {run_id} is open, but it is not asking now")
    return asking


def remove(run_id: str) -> None:
    """Forget a run that was closed."""
    _RUNS.pop(run_id, None)


def newest() -> Live | None:
    """Return the run opened last, for whoever stops it."""
    return next(reversed(_RUNS.values()), None)


def newest_screening() -> LiveRun | None:
    """Return the screening run opened last, for whoever shows its progress."""
    runs = [run for run in _RUNS.values() if isinstance(run, LiveRun)]
    return runs[-1] if runs else None
