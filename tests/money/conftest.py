"""What every test of money leaves out."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the page with its charts: an eighth of a night, and it is tested elsewhere."""
    monkeypatch.setattr("nightscreen.runs.finalize.report_page", lambda *_, **__: "")
