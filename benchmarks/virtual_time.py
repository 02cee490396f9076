"""An event loop whose clock jumps: what a schedule loses, whatever the machine is doing.

Time stands still while code runs and while the journal's thread writes; it jumps to the next timer
when nothing else is left to do. So a run in it shows the schedule alone (the opening of the cap,
barriers, calls made alone), and is the same on a busy machine and on a quiet one. What the CPU
cannot keep up with is not seen here.
"""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Executor


T = TypeVar("T")


class _JumpingSelector(selectors.DefaultSelector):
    """Waits for threads, never for timers."""

    loop: VirtualTimeLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout > 0:
            if self.loop.in_threads:
                return super().select(None)
            found = super().select(0)
            if not found:
                self.loop.jump(timeout)
            return found
        return super().select(timeout)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Runs coroutines in time of its own.

    Attributes:
        in_threads: calls handed to threads that have not come back.
    """

    def __init__(self) -> None:
        selector = _JumpingSelector()
        selector.loop = self
        self.in_threads = 0
        self._now = 0.0
        super().__init__(selector)

    def time(self) -> float:
        """Return the seconds that have passed in this loop."""
        return self._now

    def jump(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds

    def run_in_executor(  # type: ignore[override]  # asyncio's own signature is wider
        self,
        executor: Executor | None,
        func: Callable[..., Any],
        *args: Any,  # noqa: ANN401 - asyncio's own signature
    ) -> asyncio.Future[Any]:
        """Hand a call to a thread; time stands still until it comes back."""
        self.in_threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._came_back)
        return future

    def _came_back(self, _: asyncio.Future[Any]) -> None:
        self.in_threads -= 1


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in time of its own, and return its result."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)
