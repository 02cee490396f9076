"""Start the console command; print each error as one line and set the exit status.

It imports little, so that Ctrl-C during loading also gives one line.
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
"""Typer's exit status for Ctrl-C; an open run ends by itself instead, with a report."""


def run() -> NoReturn:
    """Load the command line and run it; never ends in a traceback."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy starts more threads; none is needed
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
    except BrokenPipeError:  # keeps the interpreter from reporting that the reader is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except BaseException as error:  # noqa: BLE001 - the edge: a traceback could show a customer's data
        _fail(error)
    if status == _INTERRUPTED:
        fail(STOPPED, 3)
    sys.exit(status if isinstance(status, int) else 0)


def quiet_libraries() -> None:
    """Reduce libraries' logs and warnings to level, logger and line: a text may quote a row."""
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
    """Report what is wrong with the command line; without a command, list the commands."""
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
    """Report an error on stderr, and as JSON on stdout if `--json` was given; exit."""
    if "--json" in sys.argv:
        document = {"error": message, "exit_status": status}
        sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")
    sys.stderr.write(f"nightscreen: {message}\n")
    sys.exit(status)
