"""Flows by hand: a Prefect server made sure of, the flow run in this process, Ctrl-C heeded.

Prefect is imported here and below alone, once its settings are in the environment.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import sys
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from nightscreen.cli import reaper
from nightscreen.cli.command import Result
from nightscreen.cli.context import settings_of_command
from nightscreen.cli.output import about, say
from nightscreen.config.settings import Settings, read_settings
from nightscreen.files.local_engine import running_engine
from nightscreen.schemas.errors import SettingsError
from nightscreen.schemas.stops import StopReason
from nightscreen.tasks import temporary_server
from nightscreen.tasks.temporary_server import client_environment
from nightscreen.tasks.terminal import AT_TERMINAL, Terminal

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
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
Returned = TypeVar("Returned")


def settings_for_calls() -> Settings:
    """Return the settings of a command that asks the service.

    Raises:
        SettingsError: a setting is wrong, or address or key are missing.
    """
    from nightscreen.runs.run import require_service

    settings = settings_of_command()
    require_service(settings, quote_only=False)
    return settings


def set_engine_defaults() -> None:
    """Set what the engine reads at import, where the environment does not.

    The server that `nightscreen up` runs for this HOME is used where none is named; its login is
    for its own address alone.
    """
    for name, value in ENGINE_DEFAULTS.items():
        os.environ.setdefault(name, value)
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
    if not known and not temporary_server.is_begun():
        temporary_server.begin(read_settings().home, reaper.begin())


def prepare_engine(module: str) -> None:
    """Make sure of a server, and load what a flow needs while a temporary one starts.

    That server ends with this process, however it ends.

    Args:
        module: where the flow is.

    Raises:
        SettingsError: the server that is named cannot be reached, or refuses us.
        NightscreenError: the temporary one does not start.
    """
    begin_engine()
    if served := temporary_server.let_serve():
        if os.environ.get("PREFECT_API_URL") == served[0]:  # a flow ran here before
            return
        os.environ.update(client_environment(*served))  # before Prefect is loaded, which reads it
        say(_STARTING)
        from prefect.settings import PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS as PATIENCE

        import_module(module)
        from nightscreen.tasks.own_flow import PRELOADED_MODULES

        for each in PRELOADED_MODULES:
            import_module(each)
        temporary_server.wait(PATIENCE.value())
        return
    from prefect.settings import PREFECT_API_URL

    if PREFECT_API_URL.value():
        from nightscreen.tasks.prefect_health import require_engine

        require_engine()
    else:
        reaper.begin()
        say(_STARTING)


def run_flow(path: str, *given: object, shown: bool = True, **options: object) -> Any:  # noqa: ANN401 - what the flow returns
    """Run a flow, or what stands around one, in this process, and return what it returns.

    Args:
        path: `module:name` below `nightscreen.flows`; loaded while a temporary server starts.
        given: its arguments.
        shown: show progress on stderr, and ask the person at the terminal for approvals.
        options: its arguments by name.
    """
    with graceful_sigint():
        below, _, name = path.partition(":")
        module = f"nightscreen.flows.{below}"
        prepare_engine(module)
        work = getattr(import_module(module), name)
        if not shown:
            return in_loop(work(*given, **options))
        from nightscreen.cli.terminal import ask_on_terminal, show_progress
        from nightscreen.tasks.server import beside

        async def watched() -> Any:  # noqa: ANN401 - as above
            ask_on_terminal()
            async with beside(show_progress()):
                return await work(*given, **options)

        return in_loop(watched())


def run_as_command(path: str, parameters: Any) -> Result:  # noqa: ANN401 - of any flow
    """Run a flow by hand, and return its report as the result of a command."""
    report = run_flow(path, parameters)
    more = about(report, parameters.output)
    return Result(report, EXIT_BY_STATE.get(report["state"], 1), more=more)


def in_loop(work: Coroutine[Any, Any, Returned]) -> Returned:
    """Run a coroutine to its end: in uvloop where there is one (docs/adr/0001), else asyncio's."""
    if importlib.util.find_spec("uvloop") is None:  # Windows
        return asyncio.run(work)
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


@contextmanager
def graceful_sigint() -> Iterator[None]:
    """Let Ctrl-C stop the run in an orderly way, and outright where no run is open yet.

    It is a handler of the process, not of the loop, because the engine's start keeps the loop busy.
    Libraries that are being imported may turn the interrupt into their own error, or swallow it: a
    run that opens anyway makes no call.
    """
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
    if terminal.run is not None:
        say("\nStopping: calls in flight settle, then the report is written ...")
        terminal.run.stops.stop(StopReason.CANCELLED)
