"""Kill anywhere, resume, nothing paid twice that was answered: the short form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kill.harness import spend_night

if TYPE_CHECKING:
    from pathlib import Path

    from tests.services import EngineServer


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def journal_url(request: pytest.FixtureRequest) -> str:
    """Return where a journal lies: under HOME, or in a schema of its own."""
    return "" if request.param == "sqlite" else str(request.getfixturevalue("schema_url"))


@pytest.mark.long
@pytest.mark.parametrize("seed", [11, 12])
def test_a_run_killed_again_and_again_keeps_every_promise(
    seed: int, journal_url: str, tmp_path: Path
) -> None:
    """Statuses, money and doubts are right after five kills, some of them while resuming.

    On PostgreSQL a lock of the database says who lives, on SQLite one of a file.
    """
    night = spend_night(seed, rows=220, kills=5, below=tmp_path, journal_url=journal_url)
    assert night.kills == 5
    assert night.while_resuming >= 2
    assert night.books.crashed > 0
    assert night.faults() == []


@pytest.mark.long
def test_a_run_killed_twice_keeps_every_promise(tmp_path: Path) -> None:
    """The same in short: a kill at the beginning, and one while resuming."""
    night = spend_night(13, rows=60, kills=2, below=tmp_path)
    assert night.kills == 2
    assert night.while_resuming >= 1
    assert night.faults() == []


@pytest.mark.postgres
@pytest.mark.long
def test_a_run_on_postgresql_killed_twice_keeps_every_promise(
    tmp_path: Path, schema_url: str
) -> None:
    """The same with the journal on PostgreSQL, where a lock of the database says who lives."""
    night = spend_night(14, rows=60, kills=2, below=tmp_path, journal_url=schema_url)
    assert night.kills == 2
    assert night.faults() == []


@pytest.mark.long
@pytest.mark.engine
def test_a_command_line_killed_keeps_every_promise(
    tmp_path: Path, engine_server: EngineServer
) -> None:
    """`nightscreen screen`, killed under a real server and resumed with `--run`."""
    night = spend_night(21, rows=150, kills=1, below=tmp_path, env=engine_server.env)
    assert night.kills == 1
    assert night.faults() == []
