"""What comes back to the lender: `nightscreen review`, `notices` and `outcomes`.

Lists that people filled in, notices that were sent, loans that were repaid. `results` and
`operations.loans` interpret them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightscreen.cli.command import (
    MappingOption,
    Result,
    command,
    group,
    show,
)
from nightscreen.cli.context import opened_journal, settings_of_command
from nightscreen.cli.output import about, say
from nightscreen.journal.actor import Actor
from nightscreen.operations.loans.loan_book import import_outcomes
from nightscreen.results.notice_delivery import import_sent
from nightscreen.results.outcomes import known_outcomes, outcomes_report

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


reviews = group("review", "Reviewed decision lists.")
notices = group("notices", "Notices of decisions to customers.")
outcomes = group("outcomes", "How the loans you decided on were repaid.")
_MOST_SHOWN = 50  # a choice: mistakes, about a screenful; `--json` lists all


def _say_mistakes(mistakes: Sequence[Mapping[str, Any]]) -> None:
    """Say on stderr what is wrong in which line of a file."""
    for each in mistakes[:_MOST_SHOWN]:
        sheet = each.get("sheet")
        place = f"{sheet}, row {each['line']}" if sheet else f"line {each['line']}"
        say(f"{place}: {each['column']}: {each['hint']}")
    if len(mistakes) > _MOST_SHOWN:
        say(f"and {len(mistakes) - _MOST_SHOWN:,} more; --json lists all")


def _told(view: str) -> Callable[[dict[str, Any]], None]:
    """Return what shows an imported file: its mistakes on stderr, then the view."""

    def shown(document: dict[str, Any]) -> None:
        _say_mistakes(document["mistakes"])
        show(view, document, {})

    return shown


@command("review import decisions.xlsx", of=reviews, view=_told("reviews-imported"))
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


@command("notices import notices.csv", of=notices, view=_told("notices-imported"))
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
