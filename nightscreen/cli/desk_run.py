"""A run that the desk started where no engine server is configured: parameters on stdin.

A separate process, so that the desk can be stopped and started while it goes on.
"""

from __future__ import annotations

import sys

from nightscreen.cli import event_loop
from nightscreen.cli.screen import EXIT_BY_STATE, graceful_sigint, prepare_engine, run_flow
from nightscreen.config.parameters import ScreenBatch


def main() -> int:
    """Run the flow and return the exit status."""
    parameters = ScreenBatch.model_validate_json(sys.stdin.read())
    with graceful_sigint():
        prepare_engine()
        report = event_loop.run(run_flow(parameters))
    return EXIT_BY_STATE.get(report["state"], 1)


if __name__ == "__main__":
    from nightscreen.schemas.errors import NightscreenError

    try:
        sys.exit(main())
    except NightscreenError as error:
        sys.stderr.write(f"nightscreen: {error}\n")
        sys.exit(error.exit_status)
