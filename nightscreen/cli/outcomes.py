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
from nightscreen.cli.output import naira, print_run, table
from nightscreen.operations.loans.outcome_import import import_outcomes
from nightscreen.results.outcomes import known_outcomes, outcomes_report, verdict_in_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

app = group("How the loans you decided on were repaid.")
_PARTS = (
    ("decisions", "decision", "By the decision that was valid when the money was paid out"),
    ("decided_by", "decided_by", "By who decided"),
    ("policies", "policy", "By policy"),
    ("vintages", "vintage", "By month of disbursal"),
)


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
    return Result(report, view=lambda document: print_import(document, folder))


def _print_report(document: dict[str, Any]) -> None:
    found = document["outcomes"]
    if found is None:
        typer.echo("No loan is known yet; see: nightscreen outcomes import")
        return
    total = found["total"]
    typer.echo(bad_in_words(found["bad"]))
    typer.echo(
        f"{total['loans']:,} loans: {total['good']:,} good, {total['bad']:,} bad, "
        f"{total['young']:,} are too young to say; {found['not_lent']:,} more were reversed or "
        "declined and are no outcome."
    )
    for part, key, title in _PARTS:
        _table(title, ((row[key], row) for row in found[part]))
    if found["reasons"]:
        rows = [
            (each["reason"], _share(each["caught"]), _share(each["cost"]), rate(each))
            for each in found["reasons"]
        ]
        headings = ("", "of the bad loans", "of the good ones", "bad rate")
        table(headings, rows, "What each rule catches and costs", right=(1, 2))
        typer.echo("A rule that declines is judged by those alone who were lent to all the same.")
    if found["shadow"]:
        moves = ((f"{m['shadow_policy']}: {m['from']} to {m['to']}", m) for m in found["shadow"])
        _table("By the shadow policy", moves)


@command("outcomes report --json", of=app, name="report", view=_print_report)
def report_(
    batch: Annotated[str, typer.Option(help="Only loans that this batch name decided on.")] = "",
) -> dict[str, Any]:
    """Say who paid, by decision, reason, policy and month; what each rule catches and costs."""
    bad = settings_of_command().bad_loan
    with opened_journal() as journal:
        return {"outcomes": outcomes_report(known_outcomes(journal), bad, batch=batch or None)}


def bad_in_words(bad: Mapping[str, Any]) -> str:
    """Return what counts as bad in one sentence."""
    words = [f"{bad['days_past_due']} days past due within {bad['within_days']} of the due date"]
    if days := bad["first_payment_days"]:
        words.append(f"nothing paid {days} days after the first payment was due")
    words += [name.replace("_", " ") for name in ("written_off", "restructured") if bad[name]]
    return f"Bad is: {', or '.join(words)}."


def _table(title: str, rows: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    cells = [
        (
            name,
            *(f"{row[count]:,}" for count in ("loans", "good", "bad", "young")),
            rate(row),
            naira(row["lost"]) if row["bad"] else "",
            f"{row['lost_unknown']:,}" if row["lost_unknown"] else "",
        )
        for name, row in rows
    ]
    headings = ("", "loans", "good", "bad", "young", "bad rate", "lost", "unknown loss")
    table(headings, cells, title, right=(1, 2, 3, 4, 6, 7))


def rate(cell: Mapping[str, Any]) -> str:
    """Return a bad rate with its interval; a dash where no loan is old enough."""
    found = cell["bad_rate"]
    if found is None:
        return "-"
    value, low, high = (100 * found[name] for name in ("value", "low", "high"))
    return f"{value:.1f} % ({low:.1f} to {high:.1f})"


def _share(part: float | None) -> str:
    return "-" if part is None else f"{100 * part:.1f} %"


def print_paid(paid: Mapping[str, Any], policies: tuple[str, str]) -> None:
    """Print how the customers paid on whom two policies differ, and whether that shows anything."""
    cells = [
        (
            cell["to"] if cell["from"] == cell["to"] else f"{cell['from']} to {cell['to']}",
            *(f"{cell[count]:,}" for count in ("good", "bad", "young")),
            rate(cell),
            f"{cell['never_lent']:,}",
        )
        for cell in paid["cells"]
    ]
    title = "How they paid, of those who were lent to afterwards"
    headings = ("", "good", "bad", "young", "bad rate", "never lent to")
    table(headings, cells, title, right=(1, 2, 3, 5))
    for name, part in zip(policies, ("approved_before", "approved_after"), strict=True):
        typer.echo(
            f"    approved by {name}: {rate(paid[part])} of the loans bad, lost "
            f"{naira(paid[part]['lost'])}"
        )
    for sentence in verdict_in_words(paid, policies[1]):
        typer.echo(f"    {sentence}")
