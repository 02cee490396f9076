"""`nightscreen inspect`: what a file holds and how it is understood, before anything is spent.

The diagnosis is made in `runs.diagnosis`; what it needs is imported once the command is called, so
that `--help` is quick.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightscreen.cli.command import Result, command
from nightscreen.cli.output import say

if TYPE_CHECKING:
    from nightscreen.reading.open_file import TableSource


@command("inspect customers.csv", view="inspect")
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
    date_order: Annotated[
        str, typer.Option(metavar="dmy|mdy|ymd", help="Order of dates that the file leaves open.")
    ] = "",
) -> Result:
    """Show how a file is understood and what is wrong with it; nothing is spent.

    Ends with 2 where no row of it would be screened.
    """
    diagnosis = diagnose(input, mapping, merge_rows=merge_rows, date_order=date_order)
    if not diagnosis["rows"]["screened"]:
        say("No row would be screened: see the problems above.")
    return Result(diagnosis, 0 if diagnosis["rows"]["screened"] else 2)


def diagnose(
    path: Path,
    mapping_path: Path | None = None,
    *,
    merge_rows: bool = False,
    date_order: str = "",
) -> dict[str, Any]:
    """Read a whole file and say how it is understood.

    Raises:
        UsageError: the file, the mapping or the settings cannot be used.
    """
    from nightscreen.config.settings import read_settings
    from nightscreen.reading.date_orders import ORDERS, DateOrders
    from nightscreen.reading.mapping_file import read_mapping
    from nightscreen.reading.open_file import open_source
    from nightscreen.runs.diagnosis import diagnose as diagnose_file
    from nightscreen.schemas.errors import UsageError

    if date_order and date_order not in ORDERS:
        raise UsageError(f"--date-order: {date_order} is none of {', '.join(ORDERS)}")
    settings = read_settings()
    mapping = read_mapping(mapping_path) if mapping_path else None
    source = open_source(path, mapping=mapping)
    if not date_order:
        say_open_dates(source)
    merge = merge_rows or settings.merge_rows or (mapping is not None and mapping.merge_rows)
    return diagnose_file(source, DateOrders(source, date_order), merge=merge)


def say_open_dates(source: TableSource) -> None:
    """Say at a terminal what to type where the order of consent dates is open; consent needs it."""
    from nightscreen.reading.date_orders import DateOrders

    open_ = DateOrders(source).open_consent() if sys.stderr.isatty() else None
    if open_ is not None:
        say(
            f"The file does not show how the dates of {open_[0]} are written ({open_[1]}): a "
            "consent counts only once the order is known. Give --date-order dmy where the day is "
            "first, mdy where the month is; until then the batch's last answer counts."
        )
