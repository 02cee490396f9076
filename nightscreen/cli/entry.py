"""The entry point of the console command.

Ctrl-C is answered in one line while the rest still loads.
"""

from __future__ import annotations

import os

from nightscreen.cli import STOPPED
from nightscreen.cli.failing import fail
from nightscreen.schemas.errors import NightscreenError


def run() -> None:
    """Load the command line and run it."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy starts more; no algebra needs them
    try:
        from nightscreen.files import memory_tuning

        memory_tuning.collect_less_often()
        memory_tuning.choose_allocator()
        from nightscreen.cli.main import run as run_command
    except KeyboardInterrupt:
        fail(STOPPED, 3)
    except NightscreenError as error:  # another package's check, which cannot be loaded
        fail(str(error), error.exit_status)
    run_command()
