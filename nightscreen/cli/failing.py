"""How a command ends that cannot go on: one line, and an exit status."""

from __future__ import annotations

import json
import sys
from typing import NoReturn


def fail(message: str, status: int) -> NoReturn:
    """Say what went wrong: for programs on stdout where they asked for JSON, else on stderr."""
    if "--json" in sys.argv:
        document = {"error": message, "exit_status": status}
        sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")
    _say(message)
    sys.exit(status)


def _say(message: str) -> None:
    """Say on stderr what went wrong, as an object where the log is one of objects."""
    logs = sys.modules.get("nightscreen.tasks.logs")  # not imported for the sake of an error
    if logs is not None and logs.in_json():
        logs.say("failed", message=message)
    else:
        sys.stderr.write(f"nightscreen: {message}\n")
