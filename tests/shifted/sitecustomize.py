"""Shifts the clock of a Python process that begins with this folder in its PYTHONPATH.

`tests.clocks` puts it there; every process of the tests inherits it. The monotonic clock goes on as
it is, and so do the times of files.
"""

from __future__ import annotations

import os
import time

SHIFT = "CLOCK_SHIFTED_BY_S"
"""Environment variable: seconds between the clock of the tests and that of the machine."""

if __name__ == "sitecustomize" and os.environ.get(SHIFT):  # not where a test imports it
    import time_machine

    time_machine.travel(time.time() + float(os.environ[SHIFT]), tick=True).start()
