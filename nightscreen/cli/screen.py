"""`nightscreen screen`: run the flow by hand, with a live panel, and end with the right status.

The flow itself is `flows.screen_batch`. Parameters and input are checked before the engine is
imported, so that a mistake is reported at once.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from nightscreen.cli.options import read_options
from nightscreen.cli.output import print_json
from nightscreen.config.parameters import ScreenBatch
from nightscreen.schemas.errors import SettingsError
from nightscreen.tasks import temporary_server
from nightscreen.tasks.engine_login import client_environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType

    from nightscreen.tasks.terminal import Terminal


EXIT_BY_STATE = {"completed": 0, "stopped": 3, "test_mode": 4}
ENGINE_DEFAULTS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_SERVER_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_CLI_PROMPT": "false",
}
_STARTING = (
    "Starting a temporary Prefect server, about ten seconds "
    "(nightscreen up keeps one that runs) ..."
)


def screen_file(options: Mapping[str, Any], *, json_output: bool) -> int:
    """Screen a file and return the exit status."""
    parameters = read_options(ScreenBatch, options)
    from nightscreen.cli.env_settings import settings_of_command

    settings = settings_of_command()
    if not parameters.quote_only and parameters.workers <= 1:
        begin_engine()
    from nightscreen.cli import event_loop
    from nightscreen.cli.date_prompt import with_date_order
    from nightscreen.cli.preflight import check_before_engine
    from nightscreen.tasks.logs import set_up_logs

    set_up_logs(settings.log_format)
    check_before_engine(parameters, settings)
    parameters = with_date_order(parameters, settings)
    if parameters.quote_only:
        return _only_quote(parameters, json_output=json_output)
    with graceful_sigint():
        if parameters.workers > 1:
            require_engine()
        prepare_engine()
        report = event_loop.run(run_flow(parameters))
    if json_output:
        print_json(report)
    else:
        from nightscreen.cli.summary import print_summary

        print_summary(report, parameters.output, address=settings.base_url)
    return EXIT_BY_STATE.get(report["state"], 1)


def _only_quote(parameters: ScreenBatch, *, json_output: bool) -> int:
    """Print the quote instead of running: no engine is needed for it."""
    from nightscreen.cli.quote import quote_parameters

    quote_parameters(parameters, json_output=json_output)
    return 0


def require_engine() -> None:
    """Refuse several workers where only a temporary server would run.

    Raises:
        SettingsError: no server is configured.
    """
    set_engine_defaults()
    from nightscreen.tasks.workers import require_server

    require_server("--workers")


def set_engine_defaults() -> None:
    """Set what the engine reads at import, where the environment does not.

    The server that `nightscreen up` runs for this HOME is used where none is named; its login is
    for its own address alone.
    """
    for name, value in ENGINE_DEFAULTS.items():
        os.environ.setdefault(name, value)
    from nightscreen.config.settings import read_settings
    from nightscreen.files.local_engine import running_engine

    with suppress(SettingsError):  # code that needs the settings reports what is wrong with them
        running = running_engine(read_settings().home)
        if running is None or os.environ.get("PREFECT_API_URL", running.url) != running.url:
            return
        os.environ["PREFECT_API_URL"] = running.url
        if running.login:
            os.environ.update(client_environment(*running))


def begin_engine() -> None:
    """Have a temporary server load beside this process, where no server is known.

    What it finds in Prefect's own settings is heard in `prepare_engine`. Where Prefect is loaded
    here already, the flow starts one.
    """
    set_engine_defaults()
    known = os.environ.get("PREFECT_API_URL") or "prefect" in sys.modules
    if known or temporary_server.is_begun():
        return
    from nightscreen.cli import guardian
    from nightscreen.config.settings import read_settings

    temporary_server.begin(read_settings().home, guardian.begin())


def prepare_engine() -> None:
    """Make sure of a server, and load what every flow needs while a temporary one starts.

    That server ends with this process, however it ends.

    Raises:
        SettingsError: the server that is named cannot be reached, or refuses us.
        NightscreenError: the temporary one does not start.
    """
    from nightscreen.tasks.logs import say_on_stderr

    begin_engine()
    if served := temporary_server.let_serve():
        os.environ.update(client_environment(*served))  # before Prefect is loaded, which reads it
        say_on_stderr(_STARTING)
        from prefect.settings import PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS as PATIENCE

        import nightscreen.tasks.open_run  # noqa: F401 - while the server starts

        temporary_server.wait(PATIENCE.value())
        return
    from prefect.settings import PREFECT_API_URL

    if PREFECT_API_URL.value():
        from nightscreen.tasks.prefect_health import require_engine

        require_engine()
    else:
        from nightscreen.cli import guardian

        guardian.begin()
        say_on_stderr(_STARTING)


async def run_flow(parameters: ScreenBatch) -> dict[str, Any]:
    """Run the flow under a panel."""
    from nightscreen.cli.approval_prompt import ask_on_terminal
    from nightscreen.cli.panel import show_panel
    from nightscreen.flows.screen_batch import screen_batch
    from nightscreen.tasks.logs import in_json

    ask_on_terminal()
    if in_json():
        return cast("dict[str, Any]", await screen_batch(parameters))
    async with show_panel():
        return cast("dict[str, Any]", await screen_batch(parameters))


@contextmanager
def graceful_sigint() -> Iterator[None]:
    """Let Ctrl-C stop the run in an orderly way, and outright where no run is open yet.

    It is a handler of the process, not of the loop, because the engine's start keeps the loop busy.
    Libraries that are being imported may turn the interrupt into their own error, or swallow it: a
    run that opens anyway makes no call.
    """
    from nightscreen.tasks.terminal import AT_TERMINAL, Terminal

    terminal = Terminal()

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        if terminal.run is None:
            terminal.interrupted = True
            raise KeyboardInterrupt
        asyncio.get_running_loop().call_soon_threadsafe(_stop_newest, terminal)

    before, token = signal.signal(signal.SIGINT, interrupt), AT_TERMINAL.set(terminal)
    try:
        yield
    except Exception:
        if terminal.interrupted:
            raise KeyboardInterrupt from None
        raise
    finally:
        AT_TERMINAL.reset(token)
        signal.signal(signal.SIGINT, before)


def _stop_newest(terminal: Terminal) -> None:
    """Ask nothing more in the run that is open."""
    from nightscreen.schemas.stops import StopReason
    from nightscreen.tasks.logs import say_on_stderr

    newest = terminal.run
    if newest is not None:
        say_on_stderr("\nStopping: calls in flight settle, then the report is written ...")
        newest.stops.stop(StopReason.CANCELLED)
