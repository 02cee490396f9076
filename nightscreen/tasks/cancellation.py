"""How a run is stopped from outside: SIGTERM, and a flow that is cancelled.

The engine answers SIGTERM by an exception out of the event loop, which tears down the calls in
flight with it. Here the signal only stops the run, as Ctrl-C does: calls settle, the folder is
written, and then the engine is reported. Why a run stops by itself is not decided here.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

from prefect import get_client
from prefect.exceptions import TerminationSignal
from prefect.runtime import deployment, flow_run
from prefect.states import Cancelled

from nightscreen.schemas.stops import StopReason

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from prefect.client.schemas.objects import State

    from nightscreen.tasks.run_in_engine import OpenRun

PATIENCE_S = 15.0
"""How long calls in flight may take after SIGTERM; the engine kills a run 30 s after it."""


class SignalStop:
    """Stops one run at the first signal, and gives up on calls that outlast the patience."""

    def __init__(self, run: OpenRun[Any], loop: asyncio.AbstractEventLoop) -> None:
        self._run = run
        self._loop = loop
        self._giving_up: asyncio.Task[None] | None = None

    def signalled(self, *_: object) -> None:
        """Take note of the signal; safe wherever the interpreter happens to be."""
        self._run.signalled = True
        self._loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        self._run.stops.stop(StopReason.CANCELLED)
        if self._giving_up is None:
            self._giving_up = self._loop.create_task(self._give_up())

    async def _give_up(self) -> None:
        """Cut what is still in flight, so that it is written down as in doubt."""
        await asyncio.sleep(PATIENCE_S)
        await self._run.cut()

    def over(self) -> None:
        """Stop waiting: the run has ended."""
        if self._giving_up is not None:
            self._giving_up.cancel()


@contextmanager
def handle_sigterm(run: OpenRun[Any]) -> Iterator[None]:
    """Let SIGTERM stop a run in good order while the body runs; a second one changes nothing."""
    stop = SignalStop(run, asyncio.get_running_loop())
    try:
        before = signal.signal(signal.SIGTERM, stop.signalled)
    except ValueError:  # not the main thread, where no signal arrives
        yield
        return
    try:
        yield
    finally:
        stop.over()
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)


async def to_prefect_state(
    run: OpenRun[Any], report: dict[str, Any]
) -> dict[str, Any] | State[Any]:
    """Return a run's report, or Cancelled where a worker was told to cancel the run.

    The engine hears of a cancellation by a signal that it takes for a crash unless its own handler
    is in place, so it is asked. On the command line a stop is a value like any other.

    Raises:
        TerminationSignal: a worker's run was told to end, and nobody cancelled it: the machine
            goes down.
    """
    if not run.signalled or deployment.id is None:
        return report
    async with get_client() as client:
        state = (await client.read_flow_run(UUID(flow_run.id))).state
    if state is None or not state.is_cancelling():
        raise TerminationSignal(signal.SIGTERM)
    return Cancelled(message=f"to go on, resume run {run.run_id}")


async def shield_until_done(work: Coroutine[Any, Any, object]) -> None:
    """Carry work out however often the caller is cancelled meanwhile, and pass that on afterwards.

    Raises:
        CancelledError: the caller was cancelled; the work is done.
    """
    task = asyncio.get_running_loop().create_task(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    if cancelled:
        raise asyncio.CancelledError
