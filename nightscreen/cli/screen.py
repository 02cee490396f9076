"""`nightscreen screen` and `quote`.

Parameters and input are checked before the engine is imported, so that a mistake is reported at
once; a temporary server loads meanwhile.
"""

from __future__ import annotations

from functools import partial

from nightscreen.cli import engine
from nightscreen.cli.command import Result, command
from nightscreen.cli.env_settings import settings_of_command
from nightscreen.cli.summary import print_quote, print_summary
from nightscreen.config.parameters import ScreenBatch


@command(
    "screen customers.csv --max-spend 250000 --deadline 06:00",
    view=print_summary,
    leave_out=("date_order",),
)
def screen(parameters: ScreenBatch) -> Result:
    """Screen a file of customers: the main command."""
    return screened(parameters)


@command(
    "quote customers.csv --json",
    view=print_quote,
    leave_out=("deadline", "quote_only", "run", "output", "workers", "yes", "date_order"),
    needs=("input",),
)
def quote(parameters: ScreenBatch) -> Result:
    """Say what a run would cost; free, makes no calls."""
    return screened(parameters.model_copy(update={"quote_only": True}))


def screened(parameters: ScreenBatch) -> Result:
    """Screen, or quote where no more is wanted.

    Raises:
        UsageError: parameters, settings, input or output are wrong.
    """
    settings = settings_of_command()
    if not parameters.quote_only and parameters.workers <= 1:
        engine.begin_engine()
    from nightscreen.cli.date_prompt import with_date_order
    from nightscreen.cli.preflight import check_before_engine

    check_before_engine(parameters, settings)
    parameters = with_date_order(parameters, settings)
    if parameters.quote_only:
        from nightscreen.runs.quoting import quote_batch

        return Result(quote_batch(parameters, settings), view=print_quote)
    if parameters.workers > 1:
        engine.set_engine_defaults()
        from nightscreen.tasks.workers import require_server

        require_server("--workers")
    show = partial(print_summary, address=settings.base_url)
    return engine.ran("screen_batch:screen_batch", parameters, show)
