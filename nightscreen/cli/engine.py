"""Run flows from the command line: find or start a Prefect server, handle Ctrl-C.

Prefect is imported only here and below, once its settings are in the environment.

The desk runs this module as a program, with a flow's path as argument and its parameters on stdin.
The run is then a separate process, so that the desk can be restarted meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from nightscreen.cli.command import Result
from nightscreen.cli.context import settings_of_command
from nightscreen.cli.output import about, say
from nightscreen.config.settings import Settings, read_settings
from nightscreen.files.local_engine import running_engine
from nightscreen.schemas.errors import NightscreenError, SettingsError
from nightscreen.schemas.stops import StopReason
from nightscreen.tasks import temporary_server
from nightscreen.tasks.temporary_server import client_environment
from nightscreen.tasks.terminal import AT_TERMINAL, Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

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


def settings_for_calls() -> Settings:
    """Return the settings of a command that calls the service.

    Raises:
        SettingsError: a setting is wrong, or the address or key is missing.
    """
    from nightscreen.runs.run import require_service

    settings = settings_of_command()
    require_service(settings, quote_only=False)
    return settings


def set_engine_defaults() -> None:
    """Set the variables that Prefect reads at import, unless the environment sets them.

    If no server is named, the server that `nightscreen up` runs for this HOME is used. Its login is
    sent to its own address only.
    """
    for name, value in ENGINE_DEFAULTS.items():
        os.environ.setdefault(name, value)
    with suppress(SettingsError):  # code that needs the settings reports what is wrong
        running = running_engine(read_settings().home)
        if running is None or os.environ.get("PREFECT_API_URL", running.url) != running.url:
            return
        os.environ["PREFECT_API_URL"] = running.url
        if running.login:
            os.environ.update(client_environment(*running))


def begin_engine() -> None:
    """Start loading a temporary server in another process, unless a server is known.

    `prepare_engine` learns from it whether Prefect's own settings name a server. If Prefect is
    already loaded in this process, the flow starts the server instead.
    """
    set_engine_defaults()
    known = os.environ.get("PREFECT_API_URL") or "prefect" in sys.modules
    if not known and not temporary_server.is_begun():
        temporary_server.begin(read_settings().home)


def prepare_engine(module: str) -> None:
    """Make sure that there is a server; load the flow's modules while a temporary one starts.

    The temporary server ends with this process, however this process ends.

    Args:
        module: the flow's module.

    Raises:
        SettingsError: the named server cannot be reached, or refuses the login.
        NightscreenError: the temporary server does not start.
    """
    begin_engine()
    if served := temporary_server.let_serve():
        if os.environ.get("PREFECT_API_URL") == served[0]:  # a flow ran here before
            return
        os.environ.update(client_environment(*served))  # Prefect reads it when it is loaded
        say(_STARTING)
        from prefect.settings import PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS as PATIENCE

        import_module(module)
        import_module("nightscreen.tasks.preloaded")
        temporary_server.wait(PATIENCE.value())
        return
    from prefect.settings import PREFECT_API_URL

    if PREFECT_API_URL.value():
        from nightscreen.tasks.server import require_engine

        require_engine()
    else:  # the flow begins one
        say(_STARTING)


def run_flow(path: str, *given: object, shown: bool = True, **options: object) -> Any:  # noqa: ANN401 - what the flow returns
    """Run a flow, or a coroutine that calls one, in this process; return its result.

    Args:
        path: `module:name` below `nightscreen.flows`; loaded while a temporary server starts.
        given: its positional arguments.
        shown: show progress on stderr, and ask the user at the terminal for approvals.
        options: its keyword arguments.
    """
    with graceful_sigint():
        module_name, _, name = path.partition(":")
        module = f"nightscreen.flows.{module_name}"
        prepare_engine(module)
        work = getattr(import_module(module), name)
        import uvloop  # docs/adr/0001

        from nightscreen.cli.terminal import ask_on_terminal, show_progress
        from nightscreen.tasks.server import beside

        async def watched() -> Any:  # noqa: ANN401 - as above
            if not shown:
                return await work(*given, **options)
            ask_on_terminal()
            async with beside(show_progress()):
                return await work(*given, **options)

        return uvloop.run(watched())


def run_as_command(path: str, parameters: Any) -> Result:  # noqa: ANN401 - of any flow
    """Run a flow and return its report as the result of a command."""
    report = run_flow(path, parameters)
    more = about(report, parameters.output)
    return Result(report, EXIT_BY_STATE.get(report["state"], 1), more=more)


@contextmanager
def graceful_sigint() -> Iterator[None]:
    """Let Ctrl-C stop an open run in an orderly way; if no run is open yet, end at once.

    The handler is the process's, not the loop's, because the engine's start keeps the loop busy.
    A library that is being imported may turn the interrupt into its own error, or swallow it: a run
    that opens anyway makes no call.
    """
    terminal = Terminal()

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        if terminal.run is None:
            terminal.interrupted = True
            raise KeyboardInterrupt
        asyncio.get_running_loop().call_soon_threadsafe(_stop_newest, terminal)

    previous, token = signal.signal(signal.SIGINT, interrupt), AT_TERMINAL.set(terminal)
    try:
        yield
    except Exception:
        if terminal.interrupted:
            raise KeyboardInterrupt from None
        raise
    finally:
        AT_TERMINAL.reset(token)
        signal.signal(signal.SIGINT, previous)


def _stop_newest(terminal: Terminal) -> None:
    if terminal.run is not None:
        say("\nStopping: calls in flight settle, then the report is written ...")
        terminal.run.stops.stop(StopReason.CANCELLED)


if __name__ == "__main__":
    try:
        report = run_flow(sys.argv[1], json.load(sys.stdin))
    except NightscreenError as error:
        say(f"nightscreen: {error}")
        sys.exit(error.exit_status)
    sys.exit(EXIT_BY_STATE.get(report["state"], 1))
