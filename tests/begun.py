"""A run in a journal for tests that look at runs, without a night behind it."""

from __future__ import annotations

from typing import Any

from nightscreen.journal import Journal
from nightscreen.journal.runs import RunRecord


def begin_run(journal: Journal, run_id: str, **given: Any) -> RunRecord:  # noqa: ANN401 - as `begin` takes them
    """Write a run down as under way: a portfolio's screening, where nothing else is given."""
    usual: dict[str, Any] = {
        "flow": "screen_batch",
        "batch": "people",
        "purpose": "portfolio",
        "input_digest": "d",
        "folder": str(journal.home.parent / "out" / run_id),
        "cap_micro": None,
        "parameters": {},
    }
    return journal.runs.begin(run_id, **usual | given)
