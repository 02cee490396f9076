"""Automations need a server that runs all night."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.command import nightscreen, surroundings

if TYPE_CHECKING:
    from pathlib import Path


def test_without_a_server_it_is_said_what_to_set(tmp_path: Path) -> None:
    """A temporary server would be gone before it did anything."""
    env = surroundings(tmp_path)
    env.pop("PREFECT_API_URL", None)
    ended = nightscreen("automations", "install", cwd=tmp_path, env=env)
    assert (ended.status, ended.out) == (2, "")
    assert "PREFECT_API_URL is not set" in ended.err


@pytest.mark.long
def test_a_server_that_is_down_is_said(tmp_path: Path) -> None:
    """One line, no traceback."""
    env = {**surroundings(tmp_path), "PREFECT_API_URL": "http://127.0.0.1:9/api"}
    ended = nightscreen("automations", "install", cwd=tmp_path, env=env)
    assert ended.status == 2
    assert "cannot be used" in ended.err
    assert "Traceback" not in ended.err


def test_the_doctor_says_so_too(tmp_path: Path) -> None:
    """And looks at all else: without an address and a key no run can start either."""
    env = {**surroundings(tmp_path), "PREFECT_API_URL": "http://127.0.0.1:9/api"}
    ended = nightscreen("doctor", cwd=tmp_path, env=env)
    assert "the Prefect server http://127.0.0.1:9/api cannot be reached" in ended.out
    assert "Traceback" not in ended.err
    assert "safe to run again: no, no run can start" in ended.out
