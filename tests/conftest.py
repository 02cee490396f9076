"""Fixtures that every folder of tests may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.screening import World

if TYPE_CHECKING:
    from pathlib import Path

FIRST = {
    "tests/flows/test_workers.py": "several workers",
    "tests/flows/": "an engine",
    "tests/cli/test_runs.py": "the command's engine",
    "tests/cli/test_loans.py": "the command's engine",
    "tests/privacy/": "privacy",
    "tests/kill/": "kills",
    "tests/steps/test_pulling_processes.py": "pulls",
    "tests/oncall/": "on call",
}
"""What takes longest is begun first, and what shares an engine shares a process: by prefix."""


class LongestFirst(LoadFileScheduling):  # type: ignore[misc] # it ships no types
    """Hands whole files to processes, and those that share an engine to one of them."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return next((group for prefix, group in FIRST.items() if file.startswith(prefix)), file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LongestFirst:
    """Choose how tests are spread over processes, where they are."""
    return LongestFirst(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest."""

    def place(item: pytest.Item) -> int:
        found = (place for place, prefix in enumerate(FIRST) if item.nodeid.startswith(prefix))
        return next(found, len(FIRST))

    items.sort(key=place)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return a sandbox, a HOME and an output folder of this test's own."""
    return World(tmp_path)
