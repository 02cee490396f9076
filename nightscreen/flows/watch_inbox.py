"""Watch the inbox: each file dropped there is quoted, screened once, put beside its result."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from prefect import get_run_logger, tags
from prefect.client.schemas.objects import State

from nightscreen.config.parameters import WatchInbox
from nightscreen.config.settings import read_settings
from nightscreen.flows.screen_batch import screen_batch
from nightscreen.inbox.file_intake import refuse
from nightscreen.schemas.errors import InputError
from nightscreen.tasks.engine_run import to_prefect_state
from nightscreen.tasks.inbox import open_watch
from nightscreen.tasks.own_flow import flow

if TYPE_CHECKING:
    from collections.abc import Callable

    from nightscreen.files.inbox import Ticket
    from nightscreen.tasks.inbox import InboxWatch


@flow(name="watch-inbox", flow_run_name="inbox")
async def watch_inbox(parameters: WatchInbox) -> dict[str, int] | State[Any]:
    """Screen the files that are dropped into the inbox; each is a run of its own.

    Raises:
        UsageError: settings, policy, mapping or the inbox are wrong.
        JournalError: the journal cannot be used.
    """
    watch = await keep_watch(parameters, tell=get_run_logger().info)
    says = "the file that was being screened is under inbox/failed"
    return await to_prefect_state(dict(watch.fates), says, signalled=watch.stopped)


async def keep_watch(
    options: WatchInbox, *, forever: bool = False, tell: Callable[[str], object]
) -> InboxWatch:
    """Watch the inbox until the time is up; return what its files came to.

    Args:
        options: how files are screened.
        forever: watch until stopped, whatever the options say.
        tell: is told what happens, in a sentence without names.
    """
    settings = read_settings()
    watch = await asyncio.to_thread(open_watch, options, settings, forever=forever, tell=tell)
    async for ticket in watch.tickets():
        await _screen(watch, ticket)
    return watch


async def resume_waiting(run_id: str, *, tell: Callable[[str], object]) -> InboxWatch | None:
    """Go on with the one file of the inbox that waited for a run's approval.

    Returns:
        The watch with what the file came to; None where another watch has the file already.
    """
    watch = await asyncio.to_thread(open_watch, WatchInbox(), read_settings(), tell=tell)
    ticket = await asyncio.to_thread(watch.inbox.take_waiting, run_id)
    if ticket is None:
        return None
    await _screen(watch, ticket)
    return watch


async def _screen(watch: InboxWatch, ticket: Ticket) -> None:
    """Screen one file as a run of its own, where it is to be screened, and put it away."""
    due = await watch.examined(ticket)
    if due is None:
        return
    try:
        with tags("inbox"):
            report: dict[str, Any] = await screen_batch(due.parameters)
    except InputError as error:
        watch.note(ticket, await asyncio.to_thread(refuse, ticket, error, watch.inbox))
    else:
        await watch.finish_ticket(ticket, report)
    finally:
        ticket.release()
        if due.content is not None:
            due.content.release()
