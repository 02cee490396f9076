"""`nightscreen review import`: a decision list that people filled in is imported.

`results.reviews` interprets a returned row.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nightscreen.cli.command import Result, command, group
from nightscreen.cli.deciding import require_no_desk
from nightscreen.cli.env_settings import settings_of_command
from nightscreen.cli.journal_context import opened_journal
from nightscreen.files.person import user_name
from nightscreen.journal.audit import Audit
from nightscreen.journal.customers import Customers
from nightscreen.journal.reviews import Reviews
from nightscreen.policy.declarations import read_declarations
from nightscreen.results.decision_files import read_returned
from nightscreen.results.notices import rewrite_reviewed
from nightscreen.results.reviews import Judge, take_in

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
        judge = Judge(
            Customers.of(journal),
            Reviews.of(journal),
            journal.pseudonyms,
            now=journal.clock(),
            days=days,
        )
        judged = judge.judge(rows)
        reviews = [review for found in judged.reviews.values() for review in found]
        if any(review.overrides for review in reviews):
            require_no_desk(settings, "/decisions")
        above, account = settings.override_above, user_name()
        taken = take_in(journal, judged, above=above, partial=partial, imported_by=account)
        if taken.saved:
            rewrite_reviewed(journal, judged.runs, read_declarations(settings))
            runs = sorted(judged.runs)
            Audit(journal).write_by_command("reviews imported", rows=taken.saved, runs=runs)
    told = [
        {
            "line": found.line,
            "sheet": found.sheet or None,
            "column": found.column,
            "code": found.code,
            "hint": found.hint,
        }
        for found in judged.findings
    ]
    refused = [found.refused for found in judged.findings]
    document = {
        "rows": len(rows),
        "imported": taken.saved,
        "waiting_for_second_person": taken.waiting,
        "overrides": sum(review.overrides for review in reviews) if any(taken) else 0,
        "already_known": judged.known,
        "mistakes": [each for each, is_refused in zip(told, refused, strict=True) if is_refused],
        "notices": [each for each, is_refused in zip(told, refused, strict=True) if not is_refused],
    }
    return Result(document, 2 if judged.mistakes else 0)
