"""`nightscreen outcomes`: loan books imported, and how decisions turned out.

The rules are in `operations.loans.outcome_import` and `results.outcomes`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightscreen.cli.command import MappingOption, Result, command, group
from nightscreen.cli.env_settings import settings_of_command
from nightscreen.cli.journal_context import opened_journal
from nightscreen.cli.output import print_run
from nightscreen.operations.loans.outcome_import import import_outcomes
from nightscreen.results.outcomes import known_outcomes, outcomes_report

if TYPE_CHECKING:
    from collections.abc import Mapping

app = group("How the loans you decided on were repaid.")


def print_import(report: Mapping[str, Any], output: Path | str) -> None:
    """Print what was imported."""
    rows, loans = report["rows"], report["loans"]
    values = {
        "rows": f"{rows['read']:,} read, {rows['screened']:,} imported, "
        f"{rows['quarantined']:,} in quarantine",
        "loans": f"{loans['new']:,} new, {loans['changed']:,} changed",
        "decisions": f"{loans['decided']:,} loans tied to a decision, "
        f"{loans['never_decided']:,} were paid out before any",
    }
    print_run("Outcomes", report, output, values)


@command("outcomes import loan-book.csv", of=app, name="import", view=print_import)
def import_(
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
    return Result(report, more={"output": folder})


@command("outcomes report --json", of=app, name="report", view="outcomes")
def report_(
    batch: Annotated[str, typer.Option(help="Only loans that this batch name decided on.")] = "",
) -> dict[str, Any]:
    """Say who paid, by decision, reason, policy and month; what each rule catches and costs."""
    bad = settings_of_command().bad_loan
    with opened_journal() as journal:
        return {"outcomes": outcomes_report(known_outcomes(journal), bad, batch=batch or None)}
