"""`nightscreen screen`, `quote` and `inspect`.

Parameters and input are checked before the engine is imported, so that a mistake is reported at
once; a temporary server loads meanwhile. Imports are inside the functions, so that `--help` is
quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightscreen.cli import engine
from nightscreen.cli.command import Result, command
from nightscreen.cli.context import settings_of_command
from nightscreen.cli.output import about, say, say_open_dates
from nightscreen.config.parameters import ScreenBatch
from nightscreen.schemas.errors import SettingsError

if TYPE_CHECKING:
    from nightscreen.config.settings import Settings


@command("screen customers.csv --max-spend 250000 --deadline 06:00", view="summary")
def screen(parameters: ScreenBatch) -> Result:
    """Screen a file of customers: the main command."""
    return screened(parameters, settings_of_command())


@command(
    "quote customers.csv --json",
    view="quote",
    leave_out=("deadline", "quote_only", "run", "output", "workers", "yes"),
    needs=("input",),
)
def quote(parameters: ScreenBatch) -> Result:
    """Say what a run would cost; free, makes no calls."""
    quoted = parameters.model_copy(update={"quote_only": True})
    return screened(quoted, settings_of_command())


def screened(parameters: ScreenBatch, settings: Settings) -> Result:
    """Screen a file, or only quote it.

    Raises:
        UsageError: parameters, settings, input or output are wrong.
    """
    if not parameters.quote_only and parameters.workers <= 1:
        engine.begin_engine()
    from nightscreen.cli.preflight import check_before_engine

    output = check_before_engine(parameters, settings)
    if parameters.quote_only:
        from nightscreen.runs.screening import quote_batch

        return Result(quote_batch(parameters, settings), view="quote")
    if parameters.workers > 1:
        engine.set_engine_defaults()
        from prefect.settings import PREFECT_API_URL

        if not PREFECT_API_URL.value():
            raise SettingsError(
                "--workers needs a Prefect server that runs: set PREFECT_API_URL, see "
                "docs/deploy.md"
            )
    result = engine.run_as_command("screen_batch:screen_batch", parameters)
    more = about(result.document, output, settings.base_url)
    return result._replace(view="summary", more=more)


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
