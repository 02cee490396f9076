"""`nightscreen notices`: notices of decisions to customers: confirm, record as sent.

`results.notices` decides who gets which notice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nightscreen.cli.command import CustomerArgument, Result, RunArgument, command, group
from nightscreen.cli.env_settings import settings_of_command
from nightscreen.cli.journal_context import opened_journal
from nightscreen.journal.actor import Actor
from nightscreen.policy.declarations import read_declarations
from nightscreen.results.notice_delivery import (
    confirm_proposals,
    import_sent,
    record_action,
)

app = group("Notices of decisions to customers.")
_MOST_SHOWN = 50


def _print_values(document: dict[str, Any]) -> None:
    for name, value in document.items():
        typer.echo(f"{name.replace('_', ' ')}: {value}")


@command(
    "notices confirm 20260301-220000-a1b2c3 --by 'Ada Eze'",
    of=app,
    name="confirm",
    view=_print_values,
)
def confirm(
    run_id: RunArgument,
    by: Annotated[str, typer.Option(metavar="NAME", help="Who decides.")],
    note: Annotated[str, typer.Option(metavar="TEXT", help="Why; no personal data.")] = "",
) -> dict[str, Any]:
    """Confirm all proposals of an origination run to decline, under a name."""
    settings = settings_of_command()
    declared, actor = read_declarations(settings), Actor.by_command(settings, by)
    with opened_journal() as journal:
        counts = confirm_proposals(journal, actor, run_id, declared, note=note)
    return {"run_id": run_id, "confirmed_by": actor.name, **counts}


@command(
    "notices action CUST-0000004 --batch borrowers --by 'Ada Eze' --action 'Credit limit lowered'",
    of=app,
    name="action",
    view=_print_values,
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
) -> dict[str, Any]:
    """Record an action against a portfolio's customer; the next notices include it."""
    actor = Actor.by_command(settings_of_command(), by)
    with opened_journal() as journal:
        made = record_action(journal, actor, customer_id, batch=batch, action=what)
    return {"customer_id": customer_id, "batch": batch, "run_id": made.run_id, "by": made.by}


def _print_imported(document: dict[str, Any]) -> None:
    mistakes = document["mistakes"]
    for mistake in mistakes[:_MOST_SHOWN]:
        typer.echo(f"line {mistake['line']}: {mistake['column']}: {mistake['hint']}", err=True)
    typer.echo(
        f"{document['imported']:,} notices recorded, {document['already_known']:,} known already, "
        f"{len(mistakes):,} with mistakes."
    )


@command("notices import notices.csv", of=app, name="import", view=_print_imported)
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="notices.csv, filled in.")],
) -> Result:
    """Import that notices were sent: when (told_at) and how (told_how)."""
    with opened_journal() as journal:
        added, known, mistakes = import_sent(journal, file)
    document = {
        "imported": added,
        "already_known": known,
        "mistakes": [mistake._asdict() for mistake in mistakes],
    }
    return Result(document, 2 if mistakes else 0)
