"""`nightscreen inspect`: what a file holds and how it is understood, before anything is spent.

The diagnosis is made in `runs.diagnosis`; heavy imports wait inside `diagnose`, so that `--help`
is quick.
"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nightscreen.cli.command import command
from nightscreen.cli.output import print_json

if TYPE_CHECKING:
    from rich.console import Console

    from nightscreen.runs.diagnosis import FileDiagnosis

MOST_PROBLEMS = 12


@command("inspect customers.csv")
def inspect(
    input: Annotated[  # noqa: A002 - the name users see
        Path, typer.Argument(metavar="INPUT", help="CSV, XLSX or Parquet.")
    ],
    mapping: Annotated[
        Path | None, typer.Option(help="TOML file that says what the headings mean.")
    ] = None,
    merge_rows: Annotated[
        bool,
        typer.Option("--merge-rows", help="The rows of one customer_id are one customer."),
    ] = False,
    json_output: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Show how a file is understood and what is wrong with it; nothing is spent.

    Ends with 2 where no row of it would be screened.
    """
    diagnosis = diagnose(input, mapping, merge_rows=merge_rows, ask=True)
    if json_output:
        print_json(asdict(diagnosis))
    else:
        _show(diagnosis)
    if not diagnosis.rows["screened"]:
        typer.echo("No row would be screened: see the problems above.", err=True)
        raise typer.Exit(2)


def diagnose(
    path: Path, mapping_path: Path | None = None, *, merge_rows: bool = False, ask: bool = False
) -> "FileDiagnosis":
    """Read a whole file and say how it is understood.

    Args:
        path: the file.
        mapping_path: what its headings mean.
        merge_rows: the rows of one customer are one customer.
        ask: ask at the terminal for the order of consent dates that the file leaves open.

    Raises:
        UsageError: the file, the mapping or the settings cannot be used.
    """
    from nightscreen.config.settings import read_settings
    from nightscreen.reading.date_orders import DateOrders
    from nightscreen.reading.mapping_file import read_mapping
    from nightscreen.reading.open_file import open_source
    from nightscreen.runs.diagnosis import diagnose as diagnose_file

    settings = read_settings()
    mapping = read_mapping(mapping_path) if mapping_path else None
    order = ""
    if ask:
        from nightscreen.cli.date_prompt import ask_date_order

        order = ask_date_order(path, str(mapping_path or ""), settings)
    source = open_source(path, mapping=mapping)
    merge = merge_rows or settings.merge_rows or (mapping is not None and mapping.merge_rows)
    return diagnose_file(source, DateOrders(source, order), merge=merge)


def _show(diagnosis: "FileDiagnosis") -> None:
    """Print a diagnosis for people."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    facts = [
        diagnosis.format.upper(),
        diagnosis.encoding and diagnosis.encoding.upper(),
        diagnosis.separator and f"separated by {diagnosis.separator}",
        diagnosis.sheet and f'sheet "{diagnosis.sheet}"',
    ]
    rows = diagnosis.rows
    console.print(Text(f"{diagnosis.file}: {', '.join(part for part in facts if part)}"))
    customers = f" as {rows['customers']:,} customers" if "customers" in rows else ""
    console.print(
        f"{rows['read']:,} rows: {rows['screened']:,} would be screened{customers}, "
        f"{rows['refused']:,} refused; "
        f"{diagnosis.rows_with_valid_consent:,} hold valid consent."
    )
    for finding in diagnosis.findings:
        console.print(Text(f"- {finding}"))
    _show_table(console, ("Heading", "Meaning", "Filled"), _column_cells(diagnosis))
    _show_table(
        console,
        ("Check", "Can be asked", "No identifier", "Malformed", "No valid consent"),
        _check_cells(diagnosis),
    )
    if diagnosis.problems:
        _show_table(
            console,
            ("Problem", "Column", "Rows", "See line", "Done", "What it means"),
            _problem_cells(diagnosis),
        )
        more = len(diagnosis.problems) - MOST_PROBLEMS
        if more > 0:
            console.print(f"and {more} more kinds of problem; --json lists all")


def _column_cells(diagnosis: "FileDiagnosis") -> list[tuple[str, ...]]:
    return [
        (view.heading, view.meaning or f"carried as {view.output}", f"{view.filled_pct:.1f} %")
        for view in diagnosis.columns
    ]


def _check_cells(diagnosis: "FileDiagnosis") -> list[tuple[str, ...]]:
    views = dict(diagnosis.checks)
    karma = views.pop("karma")
    rows = [*views.items(), ("karma by bvn", karma)]
    rows += [
        (f"karma by {kind}", view)
        for kind, view in diagnosis.karma_identities.items()
        if kind != "bvn"
    ]
    return [
        (name, *(f"{n:,}" for n in (v.eligible, v.ineligible, v.invalid, v.refused)))
        for name, v in rows
    ]


def _problem_cells(diagnosis: "FileDiagnosis") -> list[tuple[str, ...]]:
    return [
        (view.code, view.column, f"{view.count:,}", f"{view.line:,}", view.action, view.hint)
        for view in diagnosis.problems[:MOST_PROBLEMS]
    ]


def _show_table(console: "Console", headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print()
    console.print(table)
