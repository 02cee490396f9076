"""`nightscreen review import`: a decision list that people filled in is imported.

`results.reviews` interprets a returned row.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nightscreen.cli.command import Result, command, group
from nightscreen.cli.env_settings import settings_of_command
from nightscreen.cli.journal_context import opened_journal
from nightscreen.journal.actor import Actor
from nightscreen.results.decision_files import read_returned
from nightscreen.results.settle_case import import_reviews

app = group("Reviewed decision lists.")
_MOST_SHOWN = 50


def _print_imported(document: dict[str, Any]) -> None:
    mistakes = document["mistakes"]
    shown = [(each, "") for each in mistakes] + [(each, "notice: ") for each in document["notices"]]
    for one, word in sorted(shown, key=lambda each: (each[0]["sheet"] or "", each[0]["line"]))[
        :_MOST_SHOWN
    ]:
        place = f"{one['sheet']}, row {one['line']}" if one["sheet"] else f"line {one['line']}"
        typer.echo(f"{place}: {one['column']}: {word}{one['hint']}", err=True)
    if len(shown) > _MOST_SHOWN:
        typer.echo(f"and {len(shown) - _MOST_SHOWN:,} more; --json lists all", err=True)
    typer.echo(
        f"{document['rows']:,} reviewed rows: {document['imported']:,} imported "
        f"({document['overrides']:,} of them override), {document['already_known']:,} known "
        f"already, {len(mistakes):,} with mistakes."
    )
    waiting = document["waiting_for_second_person"]
    if waiting:
        typer.echo(
            f"{waiting:,} more wait for a second person, who confirms them at the desk under "
            "Decisions (NIGHTSCREEN_OVERRIDE_ABOVE)."
        )
    elif mistakes and not document["imported"]:
        typer.echo("Nothing was imported; correct these rows, or import the others with --partial.")


@command("review import decisions.xlsx", of=app, name="import", view=_print_imported)
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The list, as CSV or XLSX.")],
    days: Annotated[int, typer.Option(min=1, max=365, help="How long a review is valid.")] = 30,
    partial: Annotated[
        bool, typer.Option("--partial", help="Import the correct rows even if others are not.")
    ] = False,
) -> Result:
    """Import a reviewed list; each row is checked. Ends with 2 where a row has a mistake."""
    rows = read_returned(file)
    settings = settings_of_command()
    with opened_journal() as journal:
        actor = Actor.by_command(settings)
        found = import_reviews(journal, actor, rows, settings, days=days, partial=partial)
    judged = found.judged
    told = [
        {
            "line": each.line,
            "sheet": each.sheet or None,
            "column": each.column,
            "code": each.code,
            "hint": each.hint,
        }
        for each in judged.findings
    ]
    refused = [each.refused for each in judged.findings]
    document = {
        "rows": len(rows),
        "imported": found.saved,
        "waiting_for_second_person": found.waiting,
        "overrides": len(judged.overrides) if found.saved or found.waiting else 0,
        "already_known": judged.known,
        "mistakes": [each for each, is_refused in zip(told, refused, strict=True) if is_refused],
        "notices": [each for each, is_refused in zip(told, refused, strict=True) if not is_refused],
    }
    return Result(document, 2 if judged.mistakes else 0)
