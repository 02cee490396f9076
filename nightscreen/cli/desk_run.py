"""A run that the desk started where no engine server is configured: parameters on stdin.

A separate process, so that the desk can be stopped and started while it goes on.
"""

from __future__ import annotations

import sys

from nightscreen.cli.engine import EXIT_BY_STATE, run_flow
from nightscreen.config.parameters import ScreenBatch
from nightscreen.schemas.errors import NightscreenError

if __name__ == "__main__":
    try:
        report = run_flow(
            "screen_batch:screen_batch", ScreenBatch.model_validate_json(sys.stdin.read())
        )
    except NightscreenError as error:
        sys.stderr.write(f"nightscreen: {error}\n")
        sys.exit(error.exit_status)
    sys.exit(EXIT_BY_STATE.get(report["state"], 1))
