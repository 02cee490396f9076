"""The console command from its start to its end: one line for each error, and an exit status.

Ctrl-C is answered in one line while the rest still loads.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import NoReturn

from nightscreen.schemas.errors import NightscreenError

STOPPED = "stopped before anything was asked; nothing was spent"
_INTERRUPTED = 130
"""Typer turns Ctrl-C into this; a run that is open ends by itself instead, with a report."""


def run() -> NoReturn:
    """Load the command line and run it; never ends in a traceback."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy starts more; no algebra needs them
    quiet_libraries()
    try:
        from nightscreen.files import memory_tuning

        memory_tuning.collect_seldom()
        memory_tuning.choose_allocator()
        from nightscreen.cli import main

        status = main.call(sys.argv[1:])
    except KeyboardInterrupt:
        fail(STOPPED, 3)
    except NightscreenError as error:
        fail(str(error), error.exit_status)
    except BrokenPipeError:  # keeps the interpreter from complaining that nobody reads any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except BaseException as error:  # noqa: BLE001 - the edge: a traceback could show a customer's data
        _fail(error)
    if status == _INTERRUPTED:
        fail(STOPPED, 3)
    sys.exit(status if isinstance(status, int) else 0)


def quiet_libraries() -> None:
    """Show of what libraries log and warn of only the kind and the place: texts may quote a row."""
    logging.captureWarnings(capture=True)
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(logging.Formatter("%(levelname)s %(name)s %(lineno)d"))


def _fail(error: BaseException) -> NoReturn:
    import asyncio

    import typer

    if isinstance(error, typer.TyperException):
        _fail_usage(error)
    if isinstance(error, typer.Abort):
        fail("stopped", 3)
    if isinstance(error, asyncio.CancelledError):
        fail(STOPPED, 3)
    if not isinstance(error, Exception):
        raise error
    from nightscreen.tasks.error_boundary import sanitized

    fail(str(sanitized(error)), 1)


def _fail_usage(error: BaseException) -> NoReturn:
    """Say what is wrong with the command line, or what there is where no command was given."""
    message = error.format_message()  # type: ignore[attr-defined]  # of Typer's errors
    context = getattr(error, "ctx", None)
    help_ = f"see: {context.command_path if context else 'nightscreen'} --help"
    near = getattr(error, "possibilities", None)
    if near:
        message = f"{message.partition(' (')[0]}. Did you mean {near[0]!r}?"
    if not message.startswith("Usage:"):
        fail(message if message.endswith("?") else f"{message.rstrip('.')}; {help_}", 2)
    if "--json" in sys.argv:
        fail(f"a command is missing; {help_}", 2)
    sys.stderr.write(f"{message}\n")
    sys.exit(2)


def fail(message: str, status: int) -> NoReturn:
    """Say what went wrong: for programs on stdout where they asked for JSON, always on stderr."""
    if "--json" in sys.argv:
        document = {"error": message, "exit_status": status}
        sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")
    sys.stderr.write(f"nightscreen: {message}\n")
    sys.exit(status)
