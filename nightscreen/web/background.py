"""Work that is carried to its end once begun, and how often it may be begun.

A call that was sent is settled even where the customer closes the page meanwhile, and a server that
stops waits for it. The endpoints define the work.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")


class Lasting:
    """Holds work under way."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[Any]] = set()

    async def to_the_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of work, which continues if the caller is cancelled."""
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def drain(self) -> None:
        """Wait until nothing is under way."""
        while self._under_way:
            await asyncio.wait(self._under_way)


class RateLimit:
    """Lets something begin so many times within a while, for each key; in this process alone.

    Args:
        times: how many.
        within_s: the while, in seconds.
        clock: seconds that only go forward.
    """

    def __init__(
        self, times: int, within_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._times = times
        self._within_s = within_s
        self._clock = clock
        self._begun: defaultdict[str, deque[float]] = defaultdict(deque)

    def lets(self, key: str) -> bool:
        """Return whether it may begin once more, and count it if so."""
        now, begun = self._clock(), self._begun[key]
        while begun and now - begun[0] >= self._within_s:
            begun.popleft()
        if len(begun) >= self._times:
            return False
        begun.append(now)
        return True
