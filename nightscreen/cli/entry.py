"""The entry point of the console command.

Ctrl-C is answered in one line while the rest still loads.
"""

from __future__ import annotations

import os
import sys

from nightscreen.cli import STOPPED


def run() -> None:
    """Load the command line and run it."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy starts more; no algebra needs them
    try:
        from nightscreen.files import memory_tuning

        memory_tuning.collect_less_often()
        memory_tuning.choose_allocator()
        from nightscreen.cli.main import run as run_command
    except KeyboardInterrupt:
        sys.stderr.write(f"nightscreen: {STOPPED}\n")
        sys.exit(3)
    run_command()
