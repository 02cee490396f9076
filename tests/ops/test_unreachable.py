"""A server that cannot be reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.command import nightscreen, surroundings

if TYPE_CHECKING:
    from pathlib import Path


def test_the_doctor_says_so_too(tmp_path: Path) -> None:
    """And looks at all else: without an address and a key no run can start either."""
    env = {**surroundings(tmp_path), "PREFECT_API_URL": "http://127.0.0.1:9/api"}
    ended = nightscreen("doctor", cwd=tmp_path, env=env)
    assert "the Prefect server http://127.0.0.1:9/api cannot be reached" in ended.out
    assert "Traceback" not in ended.err
    assert "safe to run again: no, no run can start" in ended.out
