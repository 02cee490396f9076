"""The journal as a window writes it, from an event loop.

One thread of its own writes; outcomes that arrive while it writes go into the next group, and no
call waits for the disk. An outcome that comes after a quiet moment is committed at once; where they
come thick and fast, a group is begun every few milliseconds, since a commit for each would cost
more CPU than the call. Nothing is decided here.
"""

from __future__ import annotations

import asyncio
import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

from nightscreen.schemas.errors import JournalError, NightscreenError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nightscreen.schemas.calls import CallResult, Caps, Reservation, ReserveRequest


GROUP_EVERY_S = 0.01
"""The least time from one group's beginning to the next; it keeps no call and no slot waiting."""


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
        more: int = 0,
    ) -> list[Reservation]:
        """Commit the intents of a block as far as the caps allow."""

    def settle(self, run_id: str, outcomes: Sequence[CallResult]) -> None:
        """Commit a group of outcomes."""


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
    """

    def __init__(
        self, store: CallStore, *, run_id: str, purpose: str, caps: Caps, since: int
    ) -> None:
        self.caps = caps
        self.broken: NightscreenError | None = None
        self._store = store
        self._run_id = run_id
        self._purpose = purpose
        self._since = since
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._pending: list[tuple[CallResult, Callable[[], None]]] = []
        self._unwritten: list[CallResult] = []
        self._writer: asyncio.Task[None] | None = None
        self._next_group_at = 0.0

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

        Args:
            asks: the block.
            more: calls that follow at once where the cap, if it is shared, leaves room.

        Raises:
            JournalError: the journal cannot be written; nothing of the block may be sent.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._reserve, asks, more)

    def _reserve(self, asks: Sequence[ReserveRequest], more: int) -> list[Reservation]:
        """Commit a block; asks of several operations in a row are so many blocks."""
        grants: list[Reservation] = []
        for _, block in itertools.groupby(asks, key=lambda ask: ask.check):
            grants += self._store.reserve(
                self._run_id, self._purpose, list(block), self.caps, since=self._since, more=more
            )
        return grants

    def settle(self, outcome: CallResult, then: Callable[[], None]) -> None:
        """Hand in an outcome; `then` is called once it is committed, or cannot be."""
        self._pending.append((outcome, then))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while self._pending:
            early_s = self._next_group_at - loop.time()
            if 0 < early_s <= GROUP_EVERY_S:
                await asyncio.sleep(early_s)
            self._next_group_at = loop.time() + GROUP_EVERY_S
            group, self._pending = self._pending, []
            await self._commit([outcome for outcome, _ in group])
            for _, then in group:
                then()

    async def _commit(self, outcomes: list[CallResult]) -> None:
        """Commit outcomes; those that cannot be are kept for one more try at the end."""
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, self._store.settle, self._run_id, outcomes)
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
