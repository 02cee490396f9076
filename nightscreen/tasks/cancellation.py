"""How a run is stopped from outside: SIGTERM, and a flow that is cancelled.

The engine answers SIGTERM by an exception out of the event loop, which tears down the calls in
flight with it. Here the signal only stops the run, as Ctrl-C does: calls settle, the folder is
written, and then the engine hears of it. Why a run stops by itself is not decided here.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from prefect.exceptions import TerminationSignal
from prefect.runtime import deployment
from prefect.states import Cancelled

from nightscreen.schemas.stops import StopReason
from nightscreen.tasks.server import is_cancelled

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from prefect.client.schemas.objects import State

    from nightscreen.calling.stops import Stops


PATIENCE_S = 15.0
"""How long calls in flight may take after SIGTERM; the engine kills a run 30 s after it."""


@contextmanager
def handle_sigterm(
    stops: Stops, told: Callable[[], None], cut: Callable[[], Coroutine[Any, Any, None]]
) -> Iterator[None]:
    """Let SIGTERM stop a run in good order while the body runs; a second one changes nothing.

    `told` takes note of the signal at once. Calls that outlast the patience are `cut`, so that they
    are written down as in doubt.
    """
    loop, cutting = asyncio.get_running_loop(), list[asyncio.TimerHandle]()
    cuts = set[asyncio.Task[None]]()  # which the loop alone would forget

    def stop() -> None:
        stops.stop(StopReason.CANCELLED)
        if not cutting:
            cutting.append(loop.call_later(PATIENCE_S, lambda: cuts.add(loop.create_task(cut()))))

    def signalled(*_: object) -> None:
        """Take note of the signal; safe wherever the interpreter happens to be."""
        told()
        loop.call_soon_threadsafe(stop)

    try:
        before = signal.signal(signal.SIGTERM, signalled)
    except ValueError:  # not the main thread, where no signal arrives
        yield
        return
    try:
        yield
    finally:
        for each in cutting:
            each.cancel()
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)


async def to_prefect_state(
    run_id: str, report: dict[str, Any], *, signalled: bool
) -> dict[str, Any] | State[Any]:
    """Return a run's report, or Cancelled where a worker was told to cancel the run.

    On the command line a stop is a value like any other.

    Raises:
        TerminationSignal: a worker's run was told to end, and nobody cancelled it: the machine
            goes down.
    """
    if not signalled or deployment.id is None:
        return report
    if not await is_cancelled():
        raise TerminationSignal(signal.SIGTERM)
    return Cancelled(message=f"to go on, resume run {run_id}")


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
