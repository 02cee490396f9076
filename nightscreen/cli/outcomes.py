"""`nightscreen outcomes`: outcomes of loans, imported from the lender's loan books and reported.

The rules are in `operations.loans.outcome_import` and `results.outcomes`.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightscreen.cli.common_options import JsonOption  # noqa: TC001 - Typer reads the annotation when it runs
from nightscreen.cli.output import print_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

outcomes_app = typer.Typer(help="Outcomes of loans, and so of decisions.", no_args_is_help=True)
_LABEL = 26
_PARTS = (
    ("decisions", "decision", "By the decision that was valid when the money was paid out"),
    ("decided_by", "decided_by", "By who decided"),
    ("policies", "policy", "By policy"),
    ("vintages", "vintage", "By month of disbursal"),
)


@outcomes_app.callback()
def _outcomes() -> None:
    """Outcomes of loans, and so of decisions."""


@outcomes_app.command("import", epilog="Example: nightscreen outcomes import loan-book.csv")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="One row a loan and day.")],
    mapping: Annotated[
        Path | None, typer.Option(help="TOML file that renames, merges or defaults columns.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Where the quarantine goes; default: the setting OUTPUT.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Import a loan book; a later day of a loan replaces an earlier one."""
    from nightscreen.cli.env_settings import settings_of_command
    from nightscreen.cli.journal_context import opened_journal
    from nightscreen.operations.loans.outcome_import import import_outcomes

    folder = output or Path(settings_of_command().output)
    with opened_journal() as journal:
        report = import_outcomes(journal, file, mapping=mapping, output=folder)
    if json_output:
        print_json(report)
    else:
        print_import(report, folder)


@outcomes_app.command("report", epilog="Example: nightscreen outcomes report --json")
def report_(
    batch: Annotated[str, typer.Option(help="Only loans that this batch name decided on.")] = "",
    json_output: JsonOption = False,
) -> None:
    """Say who paid, by decision, reason, policy and month; what each rule catches and costs."""
    from nightscreen.cli.env_settings import settings_of_command
    from nightscreen.cli.journal_context import opened_journal
    from nightscreen.results.outcomes import known_outcomes, outcomes_report

    bad = settings_of_command().bad_loan
    with opened_journal() as journal:
        found = outcomes_report(known_outcomes(journal), bad, batch=batch or None)
    if json_output:
        print_json({"outcomes": found})
    elif found is None:
        typer.echo("No loan is known yet; see: nightscreen outcomes import")
    else:
        print_outcomes(found)


def print_import(report: Mapping[str, Any], output: Path) -> None:
    """Print what an import took in."""
    rows, loans = report["rows"], report["loans"]
    typer.echo(f"Outcomes {report['run_id']} {report['state']}")
    typer.echo(
        f"  rows          {rows['read']:,} read, {rows['screened']:,} taken in, "
        f"{rows['quarantined']:,} in quarantine"
    )
    typer.echo(f"  loans         {loans['new']:,} new, {loans['changed']:,} changed")
    typer.echo(
        f"  decisions     {loans['decided']:,} loans tied to a decision, "
        f"{loans['never_decided']:,} were paid out before any"
    )
    for notice in report["notices"]:
        typer.echo(f"  notice        {notice}")
    typer.echo(f"  results       {output / report['run_id']}")


def print_outcomes(found: Mapping[str, Any]) -> None:
    """Print the report for people."""
    typer.echo(bad_in_words(found["bad"]))
    total = found["total"]
    young = f"{total['young']:,} are too young to say"
    typer.echo(
        f"{total['loans']:,} loans: {total['good']:,} good, {total['bad']:,} bad, {young}; "
        f"{found['not_lent']:,} more were reversed or declined and are no outcome."
    )
    for part, key, title in _PARTS:
        _table(title, [(row[key], row) for row in found[part]])
    if found["reasons"]:
        typer.echo(f"\n{'What each rule catches and costs':<{_LABEL}}")
        for reason in found["reasons"]:
            typer.echo(
                f"  {reason['reason']:<{_LABEL}}{_share(reason['caught'])} of the bad loans, "
                f"{_share(reason['cost'])} of the good ones   {rate(reason)}"
            )
        typer.echo("  A rule that declines is judged by those alone who were lent to all the same.")
    if found["shadow"]:
        moves = [
            (f"{move['shadow_policy']}: {move['from']} to {move['to']}", move)
            for move in found["shadow"]
        ]
        _table("By the shadow policy", moves)


def bad_in_words(bad: Mapping[str, Any]) -> str:
    """Return what counts as bad in one sentence."""
    words = [
        f"{bad['days_past_due']} days past due within {bad['within_days']} of the due date",
        *(
            [f"nothing paid {bad['first_payment_days']} days after the first payment was due"]
            if bad["first_payment_days"]
            else []
        ),
        *(["written off"] if bad["written_off"] else []),
        *(["restructured"] if bad["restructured"] else []),
    ]
    return f"Bad is: {', or '.join(words)}."


def _table(title: str, rows: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    typer.echo(f"\n{title}")
    typer.echo(f"  {'':<{_LABEL}}{'loans':>9}{'good':>9}{'bad':>9}{'young':>9}  bad rate")
    for name, row in rows:
        unknown = f", of {row['lost_unknown']:,} unknown" if row["lost_unknown"] else ""
        lost = f"  lost ₦{Decimal(row['lost']):,.2f}{unknown}" if row["bad"] else ""
        typer.echo(
            f"  {name:<{_LABEL}}{row['loans']:>9,}{row['good']:>9,}{row['bad']:>9,}"
            f"{row['young']:>9,}  {rate(row)}{lost}"
        )


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
    from nightscreen.results.outcomes import verdict_in_words

    before, after = policies
    typer.echo("  how they paid, of those who were lent to afterwards:")
    for cell in paid["cells"]:
        way = f"{cell['from']} to {cell['to']}" if cell["from"] != cell["to"] else cell["to"]
        typer.echo(
            f"    {way:<{_LABEL}}{cell['good']:>7,} good {cell['bad']:>7,} bad "
            f"{cell['young']:>7,} young  {rate(cell)}  never lent to: {cell['never_lent']:,}"
        )
    for name, part in ((before, "approved_before"), (after, "approved_after")):
        part_paid = paid[part]
        lost = f"lost ₦{Decimal(part_paid['lost']):,.2f}"
        typer.echo(f"    approved by {name}: {rate(part_paid)} of the loans bad, {lost}")
    for sentence in verdict_in_words(paid, after):
        typer.echo(f"    {sentence}")
