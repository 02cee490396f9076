"""The order of consent dates that a file leaves open, asked at the terminal and kept for its batch.

Without a terminal nobody is asked: the batch's last answer counts, else those consents do not.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from nightscreen.files.sealed_file import is_sealed
from nightscreen.reading.date_orders import ORDERS, DateOrders
from nightscreen.reading.mapping_file import read_mapping
from nightscreen.reading.open_file import open_source
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.naming import batch_name

if TYPE_CHECKING:
    from nightscreen.config.parameters import ScreenBatch
    from nightscreen.config.settings import Settings

_ANSWERS = {"d": "dmy", "day": "dmy", "dmy": "dmy", "m": "mdy", "month": "mdy", "mdy": "mdy"}


def with_date_order(parameters: ScreenBatch, settings: Settings) -> ScreenBatch:
    """Return parameters with the answer of the person at the terminal, where one is needed.

    A run that is resumed keeps the order it began with.

    Raises:
        InputError: there was no answer.
    """
    if not parameters.input or parameters.run:
        return parameters
    order = ask_date_order(
        Path(parameters.input), parameters.mapping, settings, batch=parameters.batch
    )
    return parameters.model_copy(update={"date_order": order}) if order else parameters


def ask_date_order(path: Path, mapping: str, settings: Settings, *, batch: str = "") -> str:
    """Ask for the order of consent dates that a file leaves open, and keep it for the batch.

    Returns:
        `dmy` or `mdy`; empty where nothing is open or nobody sits at the terminal.

    Raises:
        InputError: the input ended without an answer.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()) or is_sealed(path):
        return ""
    source = open_source(path, mapping=read_mapping(Path(mapping)) if mapping else None)
    open_ = DateOrders(source).open_consent()
    if open_ is None:
        return ""
    order = _ask(*open_)
    from nightscreen.journal import journal_of

    with journal_of(settings) as journal:
        journal.runs.keep_date_order(batch or batch_name(path), order)
    return order


def _ask(column: str, example: str) -> str:
    sys.stderr.write(f"The file does not show how the dates of {column} are written: {example}\n")
    while True:
        sys.stderr.write("Is the day first or the month? [d/m] ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise InputError(
                f"the order of the dates of {column} is open, and consent depends on it: answer d "
                f"or m, or declare date_order in a mapping file ({', '.join(ORDERS)}); nothing was "
                "asked of the service"
            )
        order = _ANSWERS.get(line.strip().casefold())
        if order is not None:
            return order
