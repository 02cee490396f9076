"""Watch the inbox: quote each file dropped there, screen it once, put it beside its result."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from prefect import get_run_logger
from prefect.client.schemas.objects import State

from nightscreen.config.parameters import WatchInbox
from nightscreen.config.settings import read_settings
from nightscreen.flows.screen_batch import screen_batch
from nightscreen.tasks.engine_run import to_prefect_state
from nightscreen.tasks.inbox import open_watch
from nightscreen.tasks.own_flow import flow

if TYPE_CHECKING:
    from collections.abc import Callable

    from nightscreen.tasks.inbox import InboxWatch


@flow(name="watch-inbox", flow_run_name="inbox")
async def watch_inbox(parameters: WatchInbox) -> dict[str, int] | State[Any]:
    """Screen the files that are dropped into the inbox, each in its own run.

    Raises:
        UsageError: settings, policy, mapping or the inbox are wrong.
        JournalError: the journal cannot be used.
    """
    watch = await keep_watch(parameters, tell=get_run_logger().info)
    message = "the file that was being screened is under inbox/failed"
    return await to_prefect_state(dict(watch.fates), message, signalled=watch.stopped)


async def keep_watch(
    options: WatchInbox, *, forever: bool = False, tell: Callable[[str], object]
) -> InboxWatch:
    """Watch the inbox until the time is up; return the watch with the results of its files.

    Args:
        options: how files are screened.
        forever: watch until stopped, whatever the options say.
        tell: gets progress messages, which hold no file names.
    """
    settings = read_settings()
    watch = await asyncio.to_thread(open_watch, options, settings, forever=forever, tell=tell)
    async for ticket in watch.tickets():
        await watch.settle(ticket, screen_batch)
    return watch


async def resume_waiting(run_id: str, *, tell: Callable[[str], object]) -> InboxWatch | None:
    """Screen the file of the inbox that waited for a run's approval.

    Returns:
        The watch with the file's result; None if another watch has the file already.
    """
    watch = await asyncio.to_thread(open_watch, WatchInbox(), read_settings(), tell=tell)
    ticket = await asyncio.to_thread(watch.inbox.take_waiting, run_id)
    if ticket is None:
        return None
    await watch.settle(ticket, screen_batch)
    return watch
