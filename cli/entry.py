"""The entry point of the console command.

Ctrl-C is answered in one line while the rest still loads.
"""

from __future__ import annotations

import gc
import os
import sys

STOPPED = "stopped before anything was asked; nothing was spent"
_COLLECT_AFTER = (10_000, 10, 10)
"""When Python looks for garbage: new objects, then rounds of the youngest and of the middle ones.

Loading a command makes some 200,000 objects that stay. With Python's own (700, 10, 10) it looks
through all of them again and again, a tenth of the CPU to the first lookup.
"""


def run() -> None:
    """Load the command line and run it."""
    gc.set_threshold(*_COLLECT_AFTER)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy starts more; no algebra needs them
    try:
        from nightscreen.storage.memory_tuning import choose_allocator

        choose_allocator()
        from nightscreen.cli.main import run as run_command
    except KeyboardInterrupt:
        sys.stderr.write(f"nightscreen: {STOPPED}\n")
        sys.exit(3)
    run_command()
