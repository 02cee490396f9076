"""Signs of life of a made-up run, for tests."""

from __future__ import annotations

import os
import socket
from typing import Any

MINUTE = 60_000_000


def signs_in_a_test(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - signs are of any kind
    """Return the signs of a run that asks karma and is well, with some changed."""
    check = {
        "wanted": 1000,
        "done": 400,
        "failed": 0,
        "in_doubt": 0,
        "cap": 8,
        "in_flight": 8,
        "stopped": None,
    }
    return {
        "run_id": "20260301-220000-a1b2c3",
        "batch": "people",
        "at": 100 * MINUTE,
        "phase": "asking",
        "checks": {"karma": check},
        "stop": None,
        "last_answer_at": 100 * MINUTE,
        "silent_since": None,
        "deadline_at": 500 * MINUTE,
        "finish_at": 200 * MINUTE,
        "pace_s": 600.0,
        "disk_free": {"home": 10**11, "output": 10**11},
        "pid": os.getpid(),
        "host": socket.gethostname(),
        **changes,
    }
