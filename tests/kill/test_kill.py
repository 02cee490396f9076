"""Kill anywhere, resume, nothing paid twice that was answered: the short form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kill.harness import prefect_server, spend_night

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("seed", [11, 12])
def test_a_run_killed_again_and_again_keeps_every_promise(seed: int, tmp_path: Path) -> None:
    """Statuses, money and doubts are right after five kills, some of them while resuming."""
    night = spend_night(seed, rows=220, kills=5, below=tmp_path)
    assert night.kills == 5
    assert night.while_resuming >= 2
    assert night.books.crashed > 0
    assert night.faults() == []


@pytest.mark.engine
def test_a_command_line_killed_keeps_every_promise(tmp_path: Path) -> None:
    """`nightscreen screen`, killed under a real server and resumed with `--run`."""
    (tmp_path / "engine").mkdir()
    with prefect_server(tmp_path / "engine") as env:
        night = spend_night(21, rows=150, kills=1, below=tmp_path, env=env)
    assert night.kills == 1
    assert night.faults() == []
