"""`nightscreen inspect`: how a file's columns and rows are read; nothing is spent.

`runs.diagnosis` makes the diagnosis. Imports are inside the functions, so that `--help` is quick.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightscreen.cli.command import Result, command
from nightscreen.cli.output import say
from nightscreen.config.parameters import ScreenBatch

if TYPE_CHECKING:
    from nightscreen.reading.date_orders import DateOrders


@command(
    "inspect customers.csv",
    view="inspect",
    only=("input", "mapping", "merge_rows", "date_order"),
    needs=("input",),
)
def inspect(parameters: ScreenBatch) -> Result:
    """Show how a file's columns were matched and what is wrong with it; free, makes no calls.

    Exit status 2 if no row would be screened.
    """
    diagnosis = diagnose(parameters)
    if not diagnosis["rows"]["screened"]:
        say("No row would be screened: see the problems above.")
    return Result(diagnosis, 0 if diagnosis["rows"]["screened"] else 2)


def diagnose(given: ScreenBatch) -> dict[str, Any]:
    """Read a whole file and return its diagnosis.

    Raises:
        UsageError: the file, the mapping or the settings cannot be used.
    """
    from nightscreen.config.settings import read_settings
    from nightscreen.reading.date_orders import DateOrders
    from nightscreen.reading.mapping_file import read_mapping
    from nightscreen.reading.merge_rows import merges_rows
    from nightscreen.reading.open_file import open_source
    from nightscreen.runs.diagnosis import diagnose as diagnose_file

    mapping = read_mapping(Path(given.mapping)) if given.mapping else None
    source = open_source(Path(given.input), mapping=mapping)
    orders = DateOrders(source, given.date_order)
    if not given.date_order:
        say_open_dates(orders)
    return diagnose_file(source, orders, merge=merges_rows(given, read_settings(), mapping))


def say_open_dates(orders: DateOrders) -> None:
    """Tell a user at a terminal what to type if the order of consent dates is unknown."""
    open_ = orders.open_consent() if sys.stderr.isatty() else None
    if open_ is not None:
        say(
            f"The file does not show how the dates of {open_[0]} are written ({open_[1]}): a "
            "consent counts only once the order is known. Give --date-order dmy where the day is "
            "first, mdy where the month is; until then the batch's last answer counts."
        )
