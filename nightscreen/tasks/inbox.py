"""Watch the inbox: poll the folder every second, because network shares send no change events.

`inbox.file_intake` decides what to do with a file.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from prefect import tags

from nightscreen.config.settings import overridden
from nightscreen.files.inbox import Inbox, Ticket, is_being_written, is_whole
from nightscreen.inbox.file_intake import (
    LONGER,
    LOOKS,
    Fate,
    Settling,
    ToScreen,
    decided_runs,
    examine,
    place_file,
    refuse,
    safe_name,
    ticket_name,
)
from nightscreen.journal import journal_of
from nightscreen.policy.load import load_policy
from nightscreen.policy.versions import policy_in_force
from nightscreen.reading.mapping_file import read_mapping
from nightscreen.runs.run import require_service
from nightscreen.schemas.clock import system_clock
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.stops import StopReason
from nightscreen.tasks.server import is_cancelled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from typing import Any

    from nightscreen.config.parameters import ScreenBatch, WatchInbox
    from nightscreen.config.settings import Settings

LOOK_S = 1.0  # how often to look into the folder
LEFT_OVER_S = 15.0  # how often to look for files that another process claimed and left
_QUICKEST_S = 0.05  # so that a settling time of zero does not keep a processor busy


@dataclass(slots=True)
class InboxWatch:
    """An inbox that is being watched."""

    inbox: Inbox
    options: WatchInbox
    settings: Settings
    until_s: float | None  # when to end, on the monotonic clock; None for never
    tell: Callable[[str], object]  # gets progress messages, which hold no file names
    fates: Counter[str] = field(default_factory=Counter)  # number of files by result
    stopped: bool = False  # a run was cancelled, and the watch ends with it
    _settling: Settling = field(init=False)
    _swept_s: float = float("-inf")
    _decided: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._settling = Settling(self.settings.inbox_settle_s)

    async def tickets(self) -> AsyncIterator[Ticket]:
        """Yield each file once it has arrived, until the time is up or the watch stops."""
        while not self.stopped:
            ticket = await asyncio.to_thread(self._next)
            if ticket is not None:
                yield ticket
                continue
            settle_s, rest_s = self.settings.inbox_settle_s, LOOK_S
            if self.until_s is not None:  # files that are there already may still settle
                grace_s = (LONGER + 1) * settle_s if self._settling.waits else 0
                rest_s = self.until_s + grace_s - time.monotonic()
            if rest_s <= 0:
                return
            if self._settling.waits:
                rest_s = settle_s / LOOKS
            await asyncio.sleep(max(_QUICKEST_S, min(LOOK_S, rest_s)))

    def _next(self) -> Ticket | None:
        """Return a file that another process left, that waited, or that has arrived."""
        now_s = time.monotonic()
        if now_s - self._swept_s >= LEFT_OVER_S:
            for ticket in self.inbox.orphaned_tickets():
                return ticket
            self._swept_s = now_s
            self._decided = decided_runs(self.settings, self.inbox.waiting_runs())
        while self._decided:
            waited = self.inbox.take_waiting(self._decided.pop(0))
            if waited is not None:
                return waited
        path = self.inbox.path
        arrived = self._settling.find_settled(
            self.inbox.look(),
            now_s,
            is_whole=lambda name: is_whole(path / name),
            is_being_written=lambda name: is_being_written(path / name),
        )
        for name in arrived:
            claimed = self.inbox.claim(name, safe_name(name), ticket_name(system_clock))
            if claimed is not None:
                return claimed
        return None

    async def settle(
        self, ticket: Ticket, screen: Callable[[ScreenBatch], Awaitable[dict[str, Any]]]
    ) -> None:
        """Examine a file, screen it if needed, and put it beside its result.

        If the watch itself is ending, the file stays, and its run is resumed by the next watch of
        the inbox. A run that a person cancelled is not resumed.
        """
        self.tell(f"a file was taken: {ticket.folder.name}")
        content, more = None, ""
        try:
            fate = await asyncio.to_thread(examine, ticket, self.options, self.settings, self.inbox)
            if isinstance(fate, ToScreen):
                content = fate.content
                try:
                    with tags("inbox"):
                        report = await screen(fate.parameters)
                except InputError as error:
                    fate = await asyncio.to_thread(refuse, ticket, error, self.inbox)
                else:
                    if report["stop_reason"] == StopReason.CANCELLED:
                        self.stopped = True
                        if not await is_cancelled():
                            return
                    fate = await asyncio.to_thread(
                        place_file, ticket, report, self.settings, self.inbox
                    )
                    more = f" as run {report['run_id']}"
        finally:
            ticket.release()
            if content is not None:
                content.release()
        if fate is not Fate.HELD:
            self.fates[fate.value] += 1
        self.tell(f"{ticket.folder.name}: {fate.value}{more}")


def open_watch(
    options: WatchInbox,
    settings: Settings,
    *,
    forever: bool = False,
    tell: Callable[[str], object],
) -> InboxWatch:
    """Open the inbox; errors that would affect every file are raised before any is claimed.

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
