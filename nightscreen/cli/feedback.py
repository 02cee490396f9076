"""What comes back to the lender: `nightscreen review`, `notices` and `outcomes`.

Lists that people filled in, notices that were sent, loans that were repaid. `results` and
`operations.loans` interpret them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightscreen.cli.command import (
    CustomerArgument,
    MappingOption,
    Result,
    RunArgument,
    command,
    group,
    show,
)
from nightscreen.cli.context import opened_journal, settings_of_command
from nightscreen.cli.output import about, say
from nightscreen.config.declarations import read_declarations
from nightscreen.journal.actor import Actor
from nightscreen.operations.loans.loan_book import import_outcomes
from nightscreen.results.notice_delivery import confirm_proposals, import_sent, record_action
from nightscreen.results.outcomes import known_outcomes, outcomes_report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


reviews = group("review", "Reviewed decision lists.")
notices = group("notices", "Notices of decisions to customers.")
outcomes = group("outcomes", "How the loans you decided on were repaid.")
_MOST_SHOWN = 50


def _say_mistakes(mistakes: Sequence[Mapping[str, Any]]) -> None:
    """Say on stderr what is wrong in which line of a file."""
    for each in mistakes[:_MOST_SHOWN]:
        sheet = each.get("sheet")
        place = f"{sheet}, row {each['line']}" if sheet else f"line {each['line']}"
        say(f"{place}: {each['column']}: {each['hint']}")
    if len(mistakes) > _MOST_SHOWN:
        say(f"and {len(mistakes) - _MOST_SHOWN:,} more; --json lists all")


def _show_reviews(document: dict[str, Any]) -> None:
    _say_mistakes(document["mistakes"])
    show("reviews-imported", document, {})


def _show_notices(document: dict[str, Any]) -> None:
    _say_mistakes(document["mistakes"])
    show("notices-imported", document, {})


@command("review import decisions.xlsx", of=reviews, view=_show_reviews)
def import_reviewed(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The list, as CSV or XLSX.")],
    days: Annotated[int, typer.Option(min=1, max=365, help="How long a review is valid.")] = 30,
    partial: Annotated[
        bool, typer.Option("--partial", help="Import the correct rows even if others are not.")
    ] = False,
) -> Result:
    """Import a reviewed list; each row is checked. Ends with 2 where a row has a mistake."""
    from nightscreen.results.decision_files import read_returned  # loads what reads workbooks
    from nightscreen.results.settle_case import import_reviews

    rows = read_returned(file)
    settings = settings_of_command()
    with opened_journal() as journal:
        actor = Actor.by_command(settings)
        found = import_reviews(journal, actor, rows, settings, days=days, partial=partial)
    judged = found.judged
    names = ("line", "column", "code", "hint")
    mistakes = [
        {**{name: getattr(each, name) for name in names}, "sheet": each.sheet or None}
        for each in judged.mistakes
    ]
    document = {
        "rows": len(rows),
        "imported": found.saved,
        "waiting_for_second_person": found.waiting,
        "overrides": len(judged.overrides) if found.saved or found.waiting else 0,
        "already_known": judged.known,
        "mistakes": mistakes,
    }
    return Result(document, 2 if judged.mistakes else 0)


@command("notices confirm 20260301-220000-a1b2c3 --by 'Ada Eze'", of=notices, view="values")
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
    "notices action CUST-0000004 --batch borrowers --by 'Ada Eze' --action "
    "'We have lowered your credit limit.'",
    of=notices,
    view="values",
)
def action(
    customer_id: CustomerArgument,
    batch: Annotated[str, typer.Option(help="Batch name.")],
    by: Annotated[str, typer.Option(metavar="NAME", help="Who did it.")],
    what: Annotated[
        str,
        typer.Option("--action", metavar="TEXT", help="What was done, as the customer reads it."),
    ],
) -> dict[str, Any]:
    """Record an action against a portfolio's customer; the next notices include it."""
    actor = Actor.by_command(settings_of_command(), by)
    with opened_journal() as journal:
        made = record_action(journal, actor, customer_id, batch=batch, action=what)
    return {"customer_id": customer_id, "batch": batch, "run_id": made.run_id, "by": made.by}


@command("notices import notices.csv", of=notices, view=_show_notices)
def import_notices(
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


@command("outcomes import loan-book.csv", of=outcomes, view="person-run")
def import_loans(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="One row a loan and day.")],
    mapping: MappingOption = "",
    output: Annotated[
        Path | None, typer.Option(help="Where the quarantine goes; default: the setting OUTPUT.")
    ] = None,
) -> Result:
    """Import a loan book; a later day of a loan replaces an earlier one."""
    folder = output or Path(settings_of_command().output)
    with opened_journal() as journal:
        path = Path(mapping) if mapping else None
        report = import_outcomes(journal, file, mapping=path, output=folder)
    return Result(report, more=about(report, folder))


@command("outcomes report --json", of=outcomes, view="outcomes")
def repaid(
    batch: Annotated[str, typer.Option(help="Only loans that this batch name decided on.")] = "",
) -> dict[str, Any]:
    """Say who paid, by decision, reason, policy and month; what each rule catches and costs."""
    bad = settings_of_command().bad_loan
    with opened_journal() as journal:
        return {"outcomes": outcomes_report(known_outcomes(journal), bad, batch=batch or None)}
