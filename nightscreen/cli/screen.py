"""`nightscreen screen` and `quote`.

Parameters and input are checked before the engine is imported, so that a mistake is reported at
once; a temporary server loads meanwhile.

The desk runs this module as a program if no engine server is configured, with the parameters on
stdin. The run is then a separate process, so that the desk can be restarted meanwhile.
"""

from __future__ import annotations

import sys

from nightscreen.cli import engine
from nightscreen.cli.command import Result, command
from nightscreen.cli.context import settings_of_command
from nightscreen.cli.output import about
from nightscreen.config.parameters import ScreenBatch
from nightscreen.schemas.errors import NightscreenError, SettingsError


@command("screen customers.csv --max-spend 250000 --deadline 06:00", view="summary")
def screen(parameters: ScreenBatch) -> Result:
    """Screen a file of customers: the main command."""
    return screened(parameters)


@command(
    "quote customers.csv --json",
    view="quote",
    leave_out=("deadline", "quote_only", "run", "output", "workers", "yes"),
    needs=("input",),
)
def quote(parameters: ScreenBatch) -> Result:
    """Say what a run would cost; free, makes no calls."""
    return screened(parameters.model_copy(update={"quote_only": True}))


def screened(parameters: ScreenBatch) -> Result:
    """Screen a file, or only quote it.

    Raises:
        UsageError: parameters, settings, input or output are wrong.
    """
    settings = settings_of_command()
    if not parameters.quote_only and parameters.workers <= 1:
        engine.begin_engine()
    from nightscreen.cli.preflight import check_before_engine

    check_before_engine(parameters, settings)
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
    more = about(result.document, parameters.output, settings.base_url)
    return result._replace(view="summary", more=more)


if __name__ == "__main__":
    try:
        given = ScreenBatch.model_validate_json(sys.stdin.read())
        report = engine.run_flow("screen_batch:screen_batch", given)
    except NightscreenError as error:
        sys.stderr.write(f"nightscreen: {error}\n")
        sys.exit(error.exit_status)
    sys.exit(engine.EXIT_BY_STATE.get(report["state"], 1))
