"""A run as the tasks of its flow are handed it.

Tasks take the run itself: the engine stores no arguments and looks inside no plain object. How it
is opened, watched and ended is in `open_run`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from nightscreen.calling.run import Run
from nightscreen.ops.vitals import PAUSED, READING
from nightscreen.runs.screening_run import ScreeningRun
from nightscreen.schemas.errors import NightscreenError

if TYPE_CHECKING:
    from nightscreen.calling.asking import Asking
    from nightscreen.calling.caller import Caller
    from nightscreen.calling.stops import Stops

R = TypeVar("R", bound=Run)


class NotCallingError(NightscreenError):
    """A task that calls was started while its run has nothing open for calls."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"run {run_id} makes no calls now: tasks belong to the flow run that opened it; resume "
            "the run with --run"
        )


class OpenRun(Generic[R]):
    """One open run; a plain object, so that the engine does not walk through what it holds.

    Attributes:
        run: what the run has open.
        caller: what is open while it makes its calls.
        asking: what asks the lookups of a screening run, while it does.
        step: which part of its work it was in last, a word of `ops.vitals`.
        signalled: the process was told to end while the run was open.
    """

    def __init__(self, run: R) -> None:
        self.run = run
        self.caller: Caller | None = None
        self.asking: Asking | None = None
        self.step = READING
        self.signalled = False

    def __str__(self) -> str:
        """Return the run's id."""
        return self.run.run_id

    @property
    def run_id(self) -> str:
        """Return the run's id."""
        return self.run.run_id

    @property
    def stops(self) -> Stops:
        """Return what stops the run."""
        return self.run.stops

    @property
    def phase(self) -> str:
        """Return which part of its work the run is in."""
        rests = self.caller is None and self.stops.resting_since is not None
        return PAUSED if rests else self.step

    async def cut(self) -> None:
        """Cut what is still in flight, so that it is written down as in doubt."""
        if self.caller is not None:
            await self.caller.client.aclose()

    async def settle(self) -> None:
        """Let what is in flight settle, and close what is open for calls."""
        closing, self.asking = self.asking or self.caller, None
        if closing is not None:
            await closing.close()
            self.caller = None


OpenScreening = OpenRun[ScreeningRun]
OpenApiRun = OpenRun[Run]
