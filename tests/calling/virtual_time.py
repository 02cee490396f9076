"""An event loop whose time passes only when everybody waits, so that tests depend on no speed.

Work handed to threads is done at once in the loop itself. What does not belong here: fakes of ours.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
EPOCH_S = 1_780_000_000
MOST_STEPS = 5_000_000


class _Selector(selectors.SelectSelector):
    """Lets the loop's clock jump to the next timer instead of waiting for it."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise AssertionError("everybody waits and nothing is to come: a caller would hang")
        self._loop.steps += 1
        if self._loop.steps > MOST_STEPS:
            raise AssertionError("the loop spins")
        ready = super().select(0)
        if not ready:
            self._loop.now_s += max(0.0, timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Passes time by jumping.

    Attributes:
        now_s: seconds since the loop began.
        steps: how often the loop went round.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self.steps = 0
        super().__init__(_Selector(self))
        self.faults: list[dict[str, Any]] = []
        self.set_exception_handler(lambda _, context: self.faults.append(context))

    def time(self) -> float:
        return self.now_s

    def micros(self) -> int:
        """Return the virtual instant in microseconds since 1970."""
        return int((EPOCH_S + self.now_s) * 1_000_000)

    def run_in_executor(
        self, executor: object, func: Callable[..., Any], *args: object
    ) -> asyncio.Future[Any]:
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - handed over, as a thread would
            done.set_exception(error)
        return done


def run(
    main: Callable[[VirtualLoop], Coroutine[Any, Any, T]], loop: VirtualLoop | None = None
) -> T:
    """Run a coroutine to its end in virtual time; no task of it may be left or have failed."""
    loop = loop or VirtualLoop()
    try:
        result = loop.run_until_complete(main(loop))
        loop.run_until_complete(asyncio.sleep(0))
        left = asyncio.all_tasks(loop)
        assert not left, f"tasks were left behind: {left}"
        assert not loop.faults, loop.faults
        return result
    finally:
        loop.close()
