"""The journal as a run's calls write it, from an event loop.

One thread writes; outcomes that arrive while it writes go into the next group, and no call waits
for the disk. An outcome that comes after a quiet moment is committed at once; where they come thick
and fast, a group is begun every few milliseconds, since a commit for each would cost more CPU than
the call. Nothing is decided here.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from nightscreen.schemas.calls import DisputedCosts
from nightscreen.schemas.errors import JournalError, NightscreenError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nightscreen.journal.calls import Calls, Claim, Wish
    from nightscreen.schemas.calls import (
        CallResult,
        Caps,
        LookupStatus,
        Reservation,
        ReserveRequest,
    )

GROUP_EVERY_S = 0.01
"""The least time from one group's beginning to the next: it keeps no call waiting."""

Change = tuple[int, "LookupStatus", int]
"""A claimed lookup's number, what it is by now, and the attempts made at it."""


@dataclass(slots=True)
class _Asked:
    """What the checks of a run ask for in one turn of the loop."""

    # calls by name, those of one check after the other
    asks: list[ReserveRequest] = field(default_factory=list)
    # how many lookups are wanted next, by check
    wishes: dict[str, Wish] = field(default_factory=dict)
    # what became of them, once it is committed
    granted: asyncio.Task[tuple[list[Reservation], dict[str, Claim]]] = field(init=False)


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
        self._asked: _Asked | None = None
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

    async def reserve(
        self, check: str, asks: Sequence[ReserveRequest], wish: Wish | None = None
    ) -> tuple[list[Reservation], Claim | None]:
        """Commit the intents of one check's block.

        What is asked in the same turn of the loop, as by checks whose calls were settled together,
        is committed together.

        Args:
            check: the check.
            asks: calls by name.
            wish: how many of the run's lookups are wanted next.

        Returns:
            One grant for each call, and what became of the wish.

        Raises:
            JournalError: the journal cannot be written; nothing of the block may be sent.
        """
        if self._asked is None:
            self._asked = asked = _Asked()
            asked.granted = asyncio.get_running_loop().create_task(self._reserve(asked))
        asked = self._asked
        first = len(asked.asks)
        asked.asks += asks
        if wish is not None:
            asked.wishes[check] = wish
        grants, claims = await asyncio.shield(asked.granted)
        return grants[first : first + len(asks)], claims.get(check)

    async def _reserve(self, asked: _Asked) -> tuple[list[Reservation], dict[str, Claim]]:
        self._asked = None  # who asks from here on has to wait for the next block
        reserve = partial(
            self._store.claim,
            self._run_id,
            self._purpose,
            asked.asks,
            self.caps,
            since=self._since,
            wishes=asked.wishes,
        )
        return await asyncio.get_running_loop().run_in_executor(self._thread, reserve)

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
