"""The commands for the person on call: `doctor` and `automations install`.

Registered here, carried out in the modules they import.
"""

from __future__ import annotations

from typing import Annotated

import typer

from nightscreen.cli.common_options import JsonOption  # noqa: TC001 - Typer reads the annotation when it runs

RunArgument = Annotated[
    str, typer.Argument(metavar="[RUN_ID]", help="Id of the run; the newest by default.")
]

automations_app = typer.Typer(help="The Prefect automations.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.add_typer(automations_app, name="automations")
    app.command("doctor", epilog="Example: nightscreen doctor 20260301-220000-a1b2c3")(doctor)


def doctor(run_id: RunArgument = "", json_output: JsonOption = False) -> None:
    """Say what is wrong and what to type next."""
    from nightscreen.cli.doctor import doctor as examine

    raise typer.Exit(examine(run_id, json_output=json_output))


@automations_app.command(
    "install", epilog="Example: nightscreen automations install --block slack-webhook/on-call"
)
def automations_install(
    block: Annotated[
        str, typer.Option(help="Notification block for pages, as slack-webhook/on-call.")
    ] = "",
    summary_block: Annotated[
        str, typer.Option(help="Block for the morning summary; default: that of --block.")
    ] = "",
    json_output: JsonOption = False,
) -> None:
    """Put the ready-made automations on the Prefect server."""
    from nightscreen.cli.automations import install_automations

    install_automations(block, summary_block or block, json_output=json_output)
