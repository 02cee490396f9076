"""The journal as a run's calls write it, from an event loop.

One thread writes; outcomes that arrive while it writes go into the next group, and no call waits
for the disk. An outcome that comes after a quiet moment is committed at once; where they come thick
and fast, a group is begun every few milliseconds, since a commit for each would cost more CPU than
the call. Nothing is decided here.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from nightscreen.schemas.calls import DisputedCosts
from nightscreen.schemas.errors import JournalError, NightscreenError

if TYPE_CHECKING:
    from collections.abc import Callable

    from nightscreen.journal.calls import Calls, Claim, ClaimRequest
    from nightscreen.schemas.calls import CallResult, Caps, LookupStatus

GROUP_EVERY_S = 0.01
"""The least time from one group's beginning to the next: it keeps no call waiting."""

Change = tuple[int, "LookupStatus", int]
"""A claimed lookup's number, what it is by now, and the attempts made at it."""


class Writer:
    """Writes a run's intents and outcomes through one thread.

    Args:
        store: the journal's calls.
        run_id: the run.
        purpose: kept with each call.
        caps: what each block must fit under.
        since: place in the journal after which an answer is not asked for again.

    Attributes:
        broken: why nothing may be sent any more; every caller gets the error.
        disputed: the costs that are disputed since the last group of outcomes.
    """

    def __init__(self, store: Calls, *, run_id: str, purpose: str, caps: Caps, since: int) -> None:
        self.caps = caps
        self.broken: NightscreenError | None = None
        self.disputed = DisputedCosts()
        self._store = store
        self._run_id = run_id
        self._purpose = purpose
        self._since = since
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._pending: list[tuple[CallResult | None, Change | None, Callable[[], None]]] = []
        self._unwritten: list[tuple[CallResult | None, Change | None]] = []
        self._writing: asyncio.Task[None] | None = None
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

    async def claim(self, request: ClaimRequest) -> Claim:
        """Commit the intents of one check's block.

        Raises:
            JournalError: the journal cannot be written; nothing of the block may be sent.
        """
        claim = partial(
            self._store.claim, self._run_id, self._purpose, request, self.caps, since=self._since
        )
        return await asyncio.get_running_loop().run_in_executor(self._thread, claim)

    def settle(
        self, outcome: CallResult | None, change: Change | None, then: Callable[[], None]
    ) -> None:
        """Hand in how a call ended, and what became of its lookup.

        Args:
            outcome: how the call ended; None where none was made.
            change: what became of the claimed lookup; None of a call that has none.
            then: called once it is committed, or cannot be.
        """
        self._pending.append((outcome, change, then))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while self._pending:
            early_s = self._next_group_at - loop.time()
            if 0 < early_s <= GROUP_EVERY_S:
                await asyncio.sleep(early_s)
            self._next_group_at = loop.time() + GROUP_EVERY_S
            group, self._pending = self._pending, []
            await self._commit([(outcome, change) for outcome, change, _ in group])
            for _, _, then in group:
                then()

    async def _commit(self, group: list[tuple[CallResult | None, Change | None]]) -> None:
        """Commit outcomes; those that cannot be are kept for one more try at the end."""
        settle = partial(
            self._store.settle,
            self._run_id,
            [outcome for outcome, _ in group if outcome is not None],
            [change for _, change in group if change is not None],
        )
        try:
            disputed = await asyncio.get_running_loop().run_in_executor(self._thread, settle)
            self.disputed = disputed or self.disputed
        except Exception as error:  # noqa: BLE001 - every caller gets it from the lane, which stops
            self.breaks(error)
            self._unwritten += group

    async def drain(self) -> None:
        """Wait until every outcome handed in is committed.

        What could not be is tried once more: an answer that was paid for is worth it, and a disk
        may have room again. What then cannot be stays an intent, and so in doubt.
        """
        while self._writing is not None and not self._writing.done():
            await asyncio.wait([self._writing])
        if self._unwritten:
            last, self._unwritten = self._unwritten, []
            await self._commit(last)
            self._unwritten = []

    def close(self) -> None:
        """Let the thread go."""
        self._thread.shutdown(wait=True)
