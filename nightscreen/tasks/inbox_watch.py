"""Watching the inbox: waits for files, takes them one after the other, knows when to end.

A change in the folder wakes it at once where the system tells of changes, and it looks every few
seconds anyway, as network shares tell nothing. What becomes of a file is `inbox.file_intake`.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from watchfiles import awatch

from nightscreen.config.settings import overridden
from nightscreen.files.inbox import Inbox, Ticket, is_being_written, is_whole
from nightscreen.inbox.file_intake import (
    Fate,
    decided_runs,
    examine,
    refuse,
    settle,
    ticket_name,
    told_name,
)
from nightscreen.inbox.stability_check import LONGER, LOOKS, Settling
from nightscreen.journal import journal_of
from nightscreen.policy.load import load_policy
from nightscreen.policy.versions import policy_in_force
from nightscreen.reading.mapping_file import read_mapping
from nightscreen.runs.run import require_service
from nightscreen.schemas.clock import Clock, system_clock
from nightscreen.tasks.server import is_cancelled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from typing import Any

    from nightscreen.config.parameters import ScreenBatch, WatchInbox
    from nightscreen.config.settings import Settings
    from nightscreen.files.inbox import Lock
    from nightscreen.schemas.errors import InputError

LOOK_S = 5.0
"""How often the folder is looked at where nothing tells of changes."""
LEFT_OVER_S = 15.0
"""How often files are looked for that another process took and left."""
_QUICKEST_S = 0.05


@dataclass(slots=True)
class InboxWatch:
    """An inbox that is being watched.

    Attributes:
        until_s: when to end, on the monotonic clock; None is never.
        tell: is told what happens, in a sentence without names.
        fates: how many files came to what.
        stopped: a run was stopped from outside, and the watch with it.
    """

    inbox: Inbox
    options: WatchInbox
    settings: Settings
    until_s: float | None
    tell: Callable[[str], object]
    clock: Clock = system_clock
    fates: dict[str, int] = field(default_factory=dict)
    stopped: bool = False
    _settling: Settling = field(init=False)
    _swept_s: float = float("-inf")
    _decided: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._settling = Settling(self.settings.inbox_settle_s)

    async def tickets(self) -> AsyncIterator[Ticket]:
        """Yield each file once it has arrived, until the time is up or the watch is stopped."""
        while not self.stopped:
            ticket = await asyncio.to_thread(self._next)
            if ticket is not None:
                yield ticket
            elif self._is_over():
                return
            else:
                await self._change()

    def _next(self) -> Ticket | None:
        """Return a file that another process left, or one that has arrived."""
        now_s = time.monotonic()
        if now_s - self._swept_s >= LEFT_OVER_S:
            for ticket in self.inbox.left_over():
                return ticket
            self._swept_s = now_s
            self._decided = decided_runs(self.settings, self.inbox.waiting_runs())
        while self._decided:
            waited = self.inbox.take_waiting(self._decided.pop(0))
            if waited is not None:
                return waited
        for name in self._arrived(now_s):
            claimed = self.inbox.claim(name, told_name(name), ticket_name(self.clock))
            if claimed is not None:
                return claimed
        return None

    def _arrived(self, now_s: float) -> list[str]:
        path = self.inbox.path
        return self._settling.look(
            self.inbox.look(),
            now_s,
            is_whole=lambda name: is_whole(path / name),
            is_being_written=lambda name: is_being_written(path / name),
        )

    def _is_over(self) -> bool:
        """Return whether the time is up; what lies there already may still come to rest."""
        if self.until_s is None:
            return False
        grace_s = (LONGER + 1) * self.settings.inbox_settle_s if self._settling.waits else 0
        return time.monotonic() >= self.until_s + grace_s

    async def _change(self) -> None:
        """Wait until something changes, or it is time to look again."""
        if self._settling.waits:
            await asyncio.sleep(min(1.0, max(_QUICKEST_S, self.settings.inbox_settle_s / LOOKS)))
            return
        wait_s = LOOK_S
        if self.until_s is not None:
            wait_s = max(_QUICKEST_S, min(wait_s, self.until_s - time.monotonic()))
        changes = awatch(
            self.inbox.path,
            recursive=False,
            watch_filter=None,
            debounce=100,
            rust_timeout=int(wait_s * 1000),
            yield_on_timeout=True,
            raise_interrupt=False,
        )
        async with aclosing(changes):
            async for _ in changes:
                return

    def count(self, fate: Fate) -> None:
        """Note what a file came to."""
        self.fates[fate.value] = self.fates.get(fate.value, 0) + 1


@dataclass(frozen=True, slots=True)
class PendingFile:
    """A file to be screened: its run, and what is held meanwhile."""

    ticket: Ticket
    parameters: ScreenBatch
    content: Lock


def open_watch(
    options: WatchInbox,
    settings: Settings,
    *,
    forever: bool = False,
    tell: Callable[[str], object],
) -> InboxWatch:
    """Open the inbox; what would go wrong with every file is reported before any is taken.

    Raises:
        UsageError: settings, policy, mapping or the inbox are wrong.
    """
    require_service(settings, quote_only=False)
    overridden(settings.freshness, options.freshness)
    if options.policy:
        load_policy(Path(options.policy))
    else:
        with journal_of(settings) as journal:
            policy_in_force(journal, journal.clock())
    if options.mapping:
        read_mapping(Path(options.mapping))
    inbox = Inbox.open(settings.inbox, settings.home)
    until_s = None if forever else time.monotonic() + 60.0 * options.minutes
    return InboxWatch(inbox, options, settings, until_s, tell)


async def examine_file(watch: InboxWatch, ticket: Ticket) -> PendingFile | None:
    """Examine and quote a file; None where there is nothing to screen."""
    watch.tell(f"a file was taken: {ticket.folder.name}")
    try:
        found = await asyncio.to_thread(examine, ticket, watch.options, watch.settings, watch.inbox)
    except BaseException:
        ticket.release()
        raise
    if found.parameters is not None and found.content is not None:
        return PendingFile(ticket, found.parameters, found.content)
    fate = found.fate or Fate.HELD
    if fate is Fate.HELD:
        ticket.release()
    else:
        watch.count(fate)
    watch.tell(f"{ticket.folder.name}: {fate.value}")
    return None


async def put_away(watch: InboxWatch, due: PendingFile, report: Mapping[str, Any]) -> None:
    """Put a screened file beside its result.

    Where the watch itself was told to end, the file stays as it is, and its run is resumed
    when the inbox is next watched. Where a person cancelled it, it is not.
    """
    if report["stop_reason"] == "cancelled":
        watch.stopped = True
        if not await is_cancelled():
            return
    fate = await asyncio.to_thread(settle, due.ticket, report, watch.settings, watch.inbox)
    watch.count(fate)
    watch.tell(f"{due.ticket.folder.name}: {fate.value} as run {report['run_id']}")


async def put_aside(watch: InboxWatch, due: PendingFile, error: InputError) -> None:
    """Put a file that could not be read to its end where the failed ones are."""
    fate = await asyncio.to_thread(refuse, due.ticket, error, watch.inbox)
    watch.count(fate)
    watch.tell(f"{due.ticket.folder.name}: {fate.value}")
