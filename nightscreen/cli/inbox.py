"""`nightscreen inbox`: watch the inbox by hand or as a service; each file is a separate run.

The same watch runs on a worker as the deployment `watch-inbox/inbox`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from nightscreen.cli.command import Result, command
from nightscreen.cli.engine import run_flow, settings_for_calls
from nightscreen.cli.output import say
from nightscreen.config.parameters import WatchInbox


@command("inbox --once --max-spend 250000", view="inbox", leave_out=("minutes",))
def inbox(
    parameters: WatchInbox,
    once: Annotated[
        bool, typer.Option("--once", help="Screen the files there now, and end.")
    ] = False,
) -> Result:
    """Screen each file that is dropped into the inbox, once."""
    settings = settings_for_calls()
    if not once:
        say(f"Watching {settings.inbox.absolute()}; Ctrl-C ends it.")
    watch = run_flow("watch_inbox:keep_watch", parameters, forever=not once, tell=say, shown=False)
    return Result(dict(watch.fates), more={"fates": watch.fates})
