"""Instants as people read them: on the clock of Lagos, like the report and a run's id.

What programs read, with --json, is UTC; it stays as it is.
"""

from __future__ import annotations

from datetime import datetime

from nightscreen.storage.clock import LAGOS


def lagos_time(instant: str | None, *, seconds: bool = False) -> str:
    """Return an ISO 8601 instant such as `2026-03-01 22:00`; where it stands the zone is named."""
    if not instant:
        return "-"
    at = datetime.fromisoformat(instant).astimezone(LAGOS)
    return f"{at:%Y-%m-%d %H:%M:%S}" if seconds else f"{at:%Y-%m-%d %H:%M}"
