"""`nightscreen notices`: notices of decisions to customers: confirm, record as given.

`results.notices` decides who gets which notice.
"""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotation when it runs
from typing import Annotated, Any

import typer

from nightscreen.cli.common_options import (
    CustomerArgument,  # noqa: TC001 - Typer reads the annotation when it runs
    JsonOption,  # noqa: TC001 - Typer reads the annotation when it runs
)
from nightscreen.cli.journal_context import opened_journal
from nightscreen.cli.output import print_json
from nightscreen.files.person import named_by_account

notices_app = typer.Typer(help="Notices of decisions to customers.", no_args_is_help=True)
RunArgument = Annotated[str, typer.Argument(metavar="RUN_ID", help="Id of the run.")]
MOST_SHOWN = 50


@notices_app.command(
    "confirm", epilog="Example: nightscreen notices confirm 20260301-220000-a1b2c3 --by 'Ada Eze'"
)
def confirm(
    run_id: RunArgument,
    by: Annotated[str, typer.Option(metavar="NAME", help="Who decides.")],
    note: Annotated[str, typer.Option(metavar="TEXT", help="Why; no personal data.")] = "",
    json_output: JsonOption = False,
) -> None:
    """Confirm all proposals of an origination run to decline, under a name."""
    from nightscreen.cli.env_settings import settings_of_command
    from nightscreen.policy.declarations import read_declarations
    from nightscreen.results.notices import confirm_proposals, rewrite_notices

    declared = read_declarations(settings_of_command())
    with opened_journal() as journal:
        made = confirm_proposals(journal, run_id, by=named_by_account(by), note=note)
        counts = rewrite_notices(journal, run_id, declared)
    document = {"run_id": run_id, "confirmed_by": made.by, **counts.report()}
    _show(document, json_output=json_output)


@notices_app.command(
    "action",
    epilog="Example: nightscreen notices action CUST-0000004 --batch borrowers --by 'Ada Eze' "
    "--action 'Credit limit lowered'",
)
def action(
    customer_id: CustomerArgument,
    batch: Annotated[str, typer.Option(help="Batch name.")],
    by: Annotated[str, typer.Option(metavar="NAME", help="Who did it.")],
    what: Annotated[
        str,
        typer.Option(
            "--action", metavar="TEXT", help="What was done, in the words for the customer."
        ),
    ],
    json_output: JsonOption = False,
) -> None:
    """Record an action against a portfolio's customer; the next notices include it."""
    from nightscreen.results.notices import record_action

    with opened_journal() as journal:
        made = record_action(
            journal, customer_id, batch=batch, by=named_by_account(by), action=what
        )
    document = {"customer_id": customer_id, "batch": batch, "run_id": made.run_id, "by": made.by}
    _show(document, json_output=json_output)


@notices_app.command("import", epilog="Example: nightscreen notices import notices.csv")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="notices.csv, filled in.")],
    json_output: JsonOption = False,
) -> None:
    """Import that customers were told, when (told_at) and how (told_how)."""
    from nightscreen.results.notices import import_told

    with opened_journal() as journal:
        added, known, mistakes = import_told(journal, file)
    for mistake in mistakes[:MOST_SHOWN]:
        typer.echo(f"line {mistake.line}: {mistake.column}: {mistake.hint}", err=True)
    document = {
        "imported": added,
        "already_known": known,
        "mistakes": [mistake._asdict() for mistake in mistakes],
    }
    if json_output:
        _show(document, json_output=True)
    else:
        typer.echo(
            f"{added:,} notices recorded, {known:,} known already, {len(mistakes):,} with mistakes."
        )
    raise typer.Exit(2 if mistakes else 0)


def _show(document: dict[str, Any], *, json_output: bool) -> None:
    if json_output:
        print_json(document)
        return
    for name, value in document.items():
        typer.echo(f"{name.replace('_', ' ')}: {value}")
