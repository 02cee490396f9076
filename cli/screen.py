"""`nightscreen screen`: run the flow by hand, with a live panel, and end with the right status.

The flow itself is `flows.screen_batch`. Parameters and input are checked before the engine is
imported, so that a mistake is told at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from schemas.errors import UsageError
from schemas.parameters import ScreenBatch
from schemas.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

EXIT_BY_STATE = {"completed": 0, "stopped": 3, "test_mode": 4}
_ENGINE_DEFAULTS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_SERVER_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_CLI_PROMPT": "false",
}


def read_parameters(options: Mapping[str, Any]) -> ScreenBatch:
    """Return the parameters of a run.

    Raises:
        UsageError: an option is wrong; told by its name on the command line.
    """
    try:
        given = {name: value for name, value in options.items() if value not in ("", [])}
        return ScreenBatch.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]).replace("_", "-") if first["loc"] else "options"
        raise UsageError(f"--{name}: {_plain(first)}") from None


def _plain(mistake: Any) -> str:  # noqa: ANN401 - pydantic's own dictionary
    expected = mistake.get("ctx", {}).get("expected")
    if expected:
        return f"must be one of {expected}"
    if mistake["type"] == "string_pattern_mismatch":
        return "is not in the form it must have; see --help for an example"
    return str(mistake["msg"])


def screen_file(options: Mapping[str, Any], *, json_output: bool) -> int:
    """Screen a file and return the exit status."""
    parameters = read_parameters(options)
    check_before_engine(parameters)
    prepare_engine()
    report = asyncio.run(_run(parameters))
    if json_output:
        sys.stdout.write(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    elif parameters.quote_only:
        from cli.quote import print_quote

        print_quote(report)
    else:
        from cli.summary import print_summary

        print_summary(report, Path(parameters.output))
    return EXIT_BY_STATE.get(report.get("state", "completed"), 1)


def check_before_engine(parameters: ScreenBatch) -> None:
    """Find every mistake that can be found without the engine; nothing is written for the run.

    Raises:
        UsageError: settings, input, mapping, output or data key are wrong.
    """
    from steps.line import preflight

    preflight(parameters, read_settings())


def prepare_engine() -> None:
    """Set what the engine reads at import, and announce the wait for a temporary server."""
    for name, value in _ENGINE_DEFAULTS.items():
        os.environ.setdefault(name, value)
    from prefect.settings import PREFECT_API_URL

    if not PREFECT_API_URL.value():
        sys.stderr.write(
            "Starting a temporary Prefect server, about ten seconds "
            "(set PREFECT_API_URL to use one that runs) ...\n"
        )
        sys.stderr.flush()


async def _run(parameters: ScreenBatch) -> dict[str, Any]:
    """Run the flow under a panel; Ctrl-C stops asking and lets the run end by itself."""
    from cli.panel import show_panel
    from flows.screen_batch import screen_batch
    from steps.control import StopReason
    from tasks import live

    def interrupt() -> None:
        newest = live.newest()
        if newest is None:
            raise KeyboardInterrupt
        sys.stderr.write("\nStopping: calls in flight settle, then the report is written ...\n")
        newest.line.control.stop_run(StopReason.CANCELLED)

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        async with show_panel():
            report: dict[str, Any] = await screen_batch(parameters)
    finally:
        loop.remove_signal_handler(signal.SIGINT)
    return report
