"""Commands about decisions: their options and help. Their code is in `review` and `explain`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nightscreen.cli.common_options import (
    CustomerArgument,  # noqa: TC001 - Typer reads the annotation when it runs
    JsonOption,  # noqa: TC001 - Typer reads the annotation when it runs
)

ListArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The list, as CSV or XLSX.")]
FolderOption = Annotated[Path, typer.Option("--output", help="Folder for the HTML and JSON file.")]

review_app = typer.Typer(help="Decision lists that come back.", no_args_is_help=True)


def register(app: typer.Typer, runs_app: typer.Typer) -> None:
    """Add the commands to the console command and to `runs`."""
    app.add_typer(review_app, name="review")
    app.command("explain", epilog="Example: nightscreen explain CUST-0000004 --batch borrowers")(
        explain
    )
    app.command(
        "subject-access", epilog="Example: nightscreen subject-access CUST-0000004 --output access"
    )(subject_access)
    runs_app.command(
        "release",
        epilog="Example: nightscreen runs release 20260301-220000-a1b2c3 --reason 'new branch'",
    )(release)


@review_app.callback()
def _review() -> None:
    """Decision lists that come back."""


@review_app.command("import", epilog="Example: nightscreen review import decisions.xlsx")
def review_import(
    file: ListArgument,
    days: Annotated[int, typer.Option(min=1, max=365, help="How long a review is valid.")] = 30,
    partial: Annotated[
        bool, typer.Option("--partial", help="Take in the sound rows even if others are mistaken.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Take in what reviewers wrote into a decision list; each row is checked."""
    from nightscreen.cli.review import import_reviews

    status = import_reviews(file, days=days, partial=partial, json_output=json_output)
    raise typer.Exit(status)


def explain(
    customer_id: CustomerArgument,
    batch: Annotated[str, typer.Option(help="Batch name, where several know the customer.")] = "",
    json_output: JsonOption = False,
) -> None:
    """Explain one customer's decision: rules, evidence, lookups, consent, cost and reviews."""
    from nightscreen.cli.explain import explain_customer

    explain_customer(customer_id, batch=batch, json_output=json_output)


def subject_access(
    customer_id: CustomerArgument,
    output: FolderOption,
    json_output: JsonOption = False,
) -> None:
    """Gather all that is held of one customer, other people's data removed."""
    from nightscreen.cli.explain import write_subject_access

    write_subject_access(customer_id, output=output, json_output=json_output)


def release(
    run_id: Annotated[str, typer.Argument(help="Id of the run.")],
    reason: Annotated[str, typer.Option(help="Why it may be published; no personal data.")],
    json_output: JsonOption = False,
) -> None:
    """Release a run that was held because its night was not plausible."""
    from nightscreen.cli.review import release_run

    release_run(run_id, reason=reason, json_output=json_output)
