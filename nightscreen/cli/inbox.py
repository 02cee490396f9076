"""`nightscreen inbox`: watch the inbox by hand or as a service; each file is a separate run.

The same watch runs on a worker as the deployment `watch-inbox/inbox`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from nightscreen.cli.command import command
from nightscreen.cli.engine import run_flow, settings_for_calls
from nightscreen.cli.output import say
from nightscreen.config.parameters import WatchInbox


def _print_fates(fates: dict[str, int]) -> None:
    summary = ", ".join(f"{number} {fate}" for fate, number in fates.items()) or "no file"
    typer.echo(f"Inbox: {summary}.")


@command("inbox --once --max-spend 250000", view=_print_fates, leave_out=("minutes",))
def inbox(
    parameters: WatchInbox,
    once: Annotated[
        bool, typer.Option("--once", help="Screen the files there now, and end.")
    ] = False,
) -> dict[str, int]:
    """Screen each file that is dropped into the inbox, once."""
    settings = settings_for_calls()
    if not once:
        say(f"Watching {settings.inbox.absolute()}; Ctrl-C ends it.")
    watch = run_flow("watch_inbox:keep_watch", parameters, forever=not once, tell=say, shown=False)
    return dict(watch.fates)
