"""A portal of its own for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.portal.visiting import Town, Visitor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    """A portal behind https, with a sandbox."""
    with Town(tmp_path) as town:
        yield town


@pytest.fixture
def visitor(town: Town) -> Visitor:
    """A customer's browser."""
    return Visitor(town)
