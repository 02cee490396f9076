"""The writer of a run's calls into the journal, from an event loop.

One thread writes. Outcomes that arrive meanwhile go into the next group, so that no call waits for
the disk. An outcome after a quiet moment is committed at once; under load a group starts every few
milliseconds, since a commit for each outcome would cost more CPU than the call.
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
"""The least time between the starts of two groups; no call waits for it."""

Change = tuple[int, "LookupStatus", int]
"""A claimed lookup's number, its new status, and the attempts made."""


class Writer:
    """Writes a run's intents and outcomes through one thread.

    Args:
        store: the journal's calls.
        run_id: the run.
        purpose: saved with each call.
        caps: the caps that each block must fit under.
        since: journal position after which an answer is not asked for again.

    Attributes:
        broken: the error after which nothing may be sent; every caller gets it.
        disputed: the disputed costs as of the last group of outcomes.
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
        """Stop all sending because of an error; return the first such error."""
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
        """Queue a call's outcome and its lookup's change for writing.

        Args:
            outcome: the call's outcome; None if no call was made.
            change: the claimed lookup's change; None if the call has no lookup.
            then: called when it is committed, or has failed.
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
        """Commit outcomes; those that fail are tried once more at the end."""
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
        """Wait until every queued outcome is committed.

        Failed ones are tried once more, since the answers were paid for and the disk may have space
        again. A call whose outcome still cannot be written stays an intent, and so in doubt.
        """
        while self._writing is not None and not self._writing.done():
            await asyncio.wait([self._writing])
        if self._unwritten:
            last, self._unwritten = self._unwritten, []
            await self._commit(last)
            self._unwritten = []

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=True)
