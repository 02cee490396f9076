"""A journal's record of a run, for tests that need a run but no screening."""

from __future__ import annotations

from typing import Any

from nightscreen.journal import Journal
from nightscreen.journal.runs import RunRecord


def begin_run(journal: Journal, run_id: str, **fields: Any) -> RunRecord:  # noqa: ANN401 - as `begin` takes them
    """Save a run as under way; by default it screens a portfolio."""
    defaults: dict[str, Any] = {
        "flow": "screen_batch",
        "batch": "people",
        "purpose": "portfolio",
        "input_digest": "d",
        "folder": str(journal.home.parent / "out" / run_id),
        "cap_micro": None,
        "parameters": {},
    }
    return journal.runs.begin(run_id, **defaults | fields)
