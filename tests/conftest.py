"""Fixtures that every folder of tests may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.screening import World

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return a sandbox, a HOME and an output folder of this test's own."""
    return World(tmp_path)
