"""The journal as a window writes it, from an event loop.

One thread of its own writes; outcomes that arrive while it writes go into the next group, and no
call waits for the disk. An outcome that comes after a quiet moment is committed at once; where they
come thick and fast, a group is begun every few milliseconds, since a commit for each would cost
more CPU than the call. Among workers that are short of CPU it is begun less often: a group costs
nearly the same whatever its size. Nothing is decided here.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from nightscreen.schemas.calls import DisputedCosts
from nightscreen.schemas.errors import JournalError, NightscreenError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nightscreen.schemas.calls import CallResult, Caps, Reservation, ReserveRequest


GROUP_EVERY_S = 0.01
"""The least time from one group's beginning to the next.

It keeps no call waiting; a slot of a shared cap is free once the outcome is committed.
"""
MOST_EVERY_S = 0.25
"""The same at most, among workers that share a cap and are short of CPU."""
_SHORT_OF_CPU = 1.0
"""Seconds between groups where the loop is ready to run and never gets the CPU."""
_CPU_WAIT = Path("/proc/thread-self/schedstat")


class CallStore(Protocol):
    """What it needs of the journal."""

    def reserve(
        self,
        run_id: str,
        purpose: str,
        asks: Sequence[ReserveRequest],
        caps: Caps,
        *,
        since: int,
        more: Mapping[str, int] | None = None,
    ) -> list[Reservation]:
        """Commit the intents of a block as far as the caps allow."""

    def settle(self, run_id: str, outcomes: Sequence[CallResult]) -> DisputedCosts | None:
        """Commit a group of outcomes; return which costs are disputed."""


@dataclass(slots=True)
class _Asked:
    """What windows ask for in one turn of the loop.

    Attributes:
        asks: their blocks, one after the other.
        more: calls that follow, by check.
        grants: one for each ask, once they are committed.
    """

    asks: list[ReserveRequest] = field(default_factory=list)
    more: dict[str, int] = field(default_factory=dict)
    grants: asyncio.Task[list[Reservation]] = field(init=False)


class _CpuWait:
    """How long this thread was ready to run and got no CPU, as Linux counts it; elsewhere never."""

    def __init__(self) -> None:
        self._looked_at = time.monotonic()
        self._waited_s = 0.0
        self._share = 0.0

    def share_waited(self) -> float:
        """Return the share of the time it has waited of late, 0 to 1."""
        now, waited_s = time.monotonic(), self._read_s()
        since_s, self._looked_at = now - self._looked_at, now
        if since_s > 0 and self._waited_s:
            latest = min(1.0, (waited_s - self._waited_s) / since_s)
            self._share = (self._share + latest) / 2
        self._waited_s = waited_s
        return self._share

    @staticmethod
    def _read_s() -> float:
        try:
            return int(_CPU_WAIT.read_text().split()[1]) / 1e9
        except (OSError, ValueError, IndexError):
            return 0.0


class JournalWriter:
    """Writes a run's intents and outcomes through one thread.

    Args:
        store: the journal's calls.
        run_id: the run.
        purpose: kept with each call.
        caps: what each block must fit under; may be replaced while the run goes on.
        since: place in the journal after which an answer is not asked for again.

    Attributes:
        broken: why nothing may be sent any more; every caller gets the error.
        disputed: the costs that are disputed since the last group of outcomes.
    """

    def __init__(
        self, store: CallStore, *, run_id: str, purpose: str, caps: Caps, since: int
    ) -> None:
        self.caps = caps
        self.broken: NightscreenError | None = None
        self.disputed = DisputedCosts()
        self._store = store
        self._run_id = run_id
        self._purpose = purpose
        self._since = since
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._pending: list[tuple[CallResult, Callable[[], None]]] = []
        self._unwritten: list[CallResult] = []
        self._writer: asyncio.Task[None] | None = None
        self._asked: _Asked | None = None
        self._next_group_at = 0.0
        self._cpu = _CpuWait()

    def breaks(self, error: Exception) -> NightscreenError:
        """Let nothing more be sent because of an error; the first one stays and is returned."""
        if self.broken is None:
            if isinstance(error, NightscreenError):
                self.broken = error
            else:
                self.broken = JournalError(
                    f"calls cannot go on: {type(error).__name__}; what was answered is safe in the "
                    "journal, resume the run with --run"
                )
        return self.broken

    async def reserve(self, asks: Sequence[ReserveRequest], more: int = 0) -> list[Reservation]:
        """Commit the intents of a block; one grant for each ask.

        Windows that ask in the same turn of the loop, as those do whose calls were settled
        together, get their blocks committed together.

        Args:
            asks: the block.
            more: calls that follow at once where the cap, if it is shared, leaves room.

        Raises:
            JournalError: the journal cannot be written; nothing of the block may be sent.
        """
        if self._asked is None:
            self._asked = asked = _Asked()
            asked.grants = asyncio.get_running_loop().create_task(self._reserve(asked))
        asked = self._asked
        first = len(asked.asks)
        asked.asks += asks
        asked.more[asks[-1].check] = more
        grants = await asyncio.shield(asked.grants)
        return grants[first : first + len(asks)]

    async def _reserve(self, asked: _Asked) -> list[Reservation]:
        self._asked = None  # who asks from here on has to wait for the next block
        reserve = partial(
            self._store.reserve,
            self._run_id,
            self._purpose,
            asked.asks,
            self.caps,
            since=self._since,
            more=asked.more,
        )
        return await asyncio.get_running_loop().run_in_executor(self._thread, reserve)

    def settle(self, outcome: CallResult, then: Callable[[], None]) -> None:
        """Hand in an outcome; `then` is called once it is committed, or cannot be."""
        self._pending.append((outcome, then))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while self._pending:
            early_s = self._next_group_at - loop.time()
            if 0 < early_s <= MOST_EVERY_S:
                await asyncio.sleep(early_s)
            self._next_group_at = loop.time() + self._every_s()
            group, self._pending = self._pending, []
            await self._commit([outcome for outcome, _ in group])
            for _, then in group:
                then()

    def _every_s(self) -> float:
        """Return the least time to the next group.

        A process that has a cap to itself has enough under way for its groups to be large.
        """
        if not self.caps.in_flight:
            return GROUP_EVERY_S
        scarce_s = min(MOST_EVERY_S, _SHORT_OF_CPU * self._cpu.share_waited())
        return max(GROUP_EVERY_S, scarce_s)

    async def _commit(self, outcomes: list[CallResult]) -> None:
        """Commit outcomes; those that cannot be are kept for one more try at the end."""
        loop = asyncio.get_running_loop()
        settle = partial(self._store.settle, self._run_id, outcomes)
        try:
            disputed = await loop.run_in_executor(self._thread, settle)
            self.disputed = disputed or self.disputed
        except Exception as error:  # noqa: BLE001 - told to every caller by the window, which stops
            self.breaks(error)
            self._unwritten += outcomes

    async def drain(self) -> None:
        """Wait until every outcome handed in is committed.

        What could not be is tried once more: an answer that was paid for is worth it, and a disk
        may have room again. What then cannot be stays an intent, and so in doubt.
        """
        while self._writer is not None and not self._writer.done():
            await asyncio.wait([self._writer])
        if self._unwritten:
            last, self._unwritten = self._unwritten, []
            await self._commit(last)
            self._unwritten = []

    def close(self) -> None:
        """Let the thread go."""
        self._thread.shutdown(wait=True)
