"""`nightscreen inbox`: watch the inbox by hand or as a service; each file is a separate run.

The same watch runs on a worker as the deployment `watch-inbox/inbox`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from nightscreen.cli.common_options import JsonOption  # noqa: TC001 - Typer reads the annotation when it runs
from nightscreen.cli.options import Options, options_of, read_options
from nightscreen.cli.output import print_json
from nightscreen.config.parameters import WatchInbox

if TYPE_CHECKING:
    from collections.abc import Mapping


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("inbox", epilog="Example: nightscreen inbox --once --max-spend 250000")(inbox)


@options_of(WatchInbox, leave_out=("minutes",))
def inbox(
    options: Options,
    once: Annotated[
        bool, typer.Option("--once", help="Screen the files there now, and end.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Screen each file that is dropped into the inbox, once."""
    fates = watch(options, once=once)
    if json_output:
        print_json(fates)
    else:
        summary = ", ".join(f"{number} {fate}" for fate, number in fates.items()) or "no file"
        typer.echo(f"Inbox: {summary}.")


def watch(given: Mapping[str, object], *, once: bool) -> dict[str, int]:
    """Watch the inbox, and return the number of files by result."""
    from nightscreen.cli.env_settings import settings_of_command
    from nightscreen.cli.preflight import check_service
    from nightscreen.cli.screen import graceful_sigint, prepare_engine

    parameters = read_options(WatchInbox, given)
    settings = settings_of_command()
    check_service(settings)
    with graceful_sigint():
        prepare_engine()
        from nightscreen.flows.watch_inbox import keep_watch
        from nightscreen.tasks.logs import say_on_stderr

        if not once:
            say_on_stderr(f"Watching {settings.inbox.absolute()}; Ctrl-C ends it.")
        return asyncio.run(keep_watch(parameters, forever=not once, tell=say_on_stderr)).fates
