"""The command for the person on call: `doctor`.

Registered here, carried out in `doctor`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from nightscreen.cli.common_options import JsonOption  # noqa: TC001 - Typer reads the annotation when it runs

RunArgument = Annotated[
    str, typer.Argument(metavar="[RUN_ID]", help="Id of the run; the newest by default.")
]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("doctor", epilog="Example: nightscreen doctor 20260301-220000-a1b2c3")(doctor)


def doctor(run_id: RunArgument = "", json_output: JsonOption = False) -> None:
    """Say what is wrong and what to type next."""
    from nightscreen.cli.doctor import doctor as examine

    raise typer.Exit(examine(run_id, json_output=json_output))
