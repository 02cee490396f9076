"""A portal and a browser for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.portal.visiting import Town, Visitor


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    """A portal behind https, with a sandbox."""
    with Town(tmp_path) as town:
        yield town


@pytest.fixture
def visitor(town: Town) -> Visitor:
    """A customer's browser."""
    return Visitor(town)
