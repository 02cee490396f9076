"""Kill anywhere, resume, nothing paid twice that was answered: the short form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nightscreen.journal.opening import journal_of
from tests.kill import truth
from tests.kill.harness import spend_night
from tests.killed import is_killed
from tests.screening import CONSENT, World, customer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.services import EngineServer

AT_ONCE = {"bank_account": 3, "karma": 4, "ecosystem": 4}
AT_RISK = 3
"""Calls that a kill may leave without an outcome, for each that may be under way: those under way,
those reserved next, and those whose outcome waits for its group to be committed."""


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


@pytest.mark.parametrize("heard", [True, False])
def test_a_run_killed_in_mid_asking_and_again_while_resuming_keeps_every_promise(
    journal_url: str, tmp_path: Path, *, heard: bool
) -> None:
    """Nothing answered is paid twice, every doubt is named, and the resumed run completes.

    The process dies at a call that the service carries out and charges, or never hears of.
    """
    world = World(tmp_path, settings={"max_in_flight": AT_ONCE, "journal_url": journal_url})
    rows = [customer(number, **CONSENT) for number in range(20)]
    assert is_killed(world, lambda: world.screen(rows), at_call=17, heard=heard)
    with journal_of(world.read_settings()) as journal:
        (run,) = journal.runs.newest()
    assert is_killed(world, lambda: world.screen(run=run.run_id), at_call=9, heard=heard)
    night = world.screen(run=run.run_id)
    ledger = {"totals": world.sandbox.ledger.totals_json(), "entries": world.calls()}
    books = truth.books_of(tmp_path / "home", run.run_id, ledger, journal_url)
    assert night.report["state"] == "completed"
    assert truth.wrong_statuses(night.folder) == []
    assert (books.unnamed, books.wrong) == ([], [])
    assert all(times == 1 for times in books.answered.values())
    assert 2 <= books.crashed <= 2 * AT_RISK * sum(AT_ONCE.values())
    lost = books.ledger_micro - books.journal_micro
    assert 0 <= lost <= sum(books.doubts.values()) * 25_000_000


@pytest.mark.long
@pytest.mark.sample
@pytest.mark.engine
def test_a_command_line_killed_keeps_every_promise(
    tmp_path: Path, engine_server: EngineServer
) -> None:
    """`nightscreen screen`, killed under a real server and resumed with `--run`."""
    night = spend_night(21, rows=150, kills=1, below=tmp_path, env=engine_server.env)
    assert night.kills == 1
    assert night.faults() == []
