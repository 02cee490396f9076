"""Locks that die with their process, on both databases, killed for real."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from nightscreen.journal.holders import FileHolders
from nightscreen.schemas.calls import ReservationStatus
from tests.forked import Forked
from tests.journal.conftest import PRICE, Place, reserve


def test_a_killed_process_lets_go_at_once(place: Place) -> None:
    """While it lives its call is held; after SIGKILL the call is in doubt and may be made again."""
    with Forked(lambda: str(reserve(place.open(), 1, run="child")[0][1].kind)) as child:
        assert child.told() == ReservationStatus.GRANTED
        mine = place.open()
        assert reserve(mine, 1)[0][1].kind is ReservationStatus.HELD
        assert mine.calls.recover() == 0
    wait_until_gone(place)
    assert mine.calls.recover() == 1
    assert [row.reserved_micro for row in mine.runs.in_doubt()] == [PRICE]
    assert reserve(mine, 1)[0][1].kind is ReservationStatus.GRANTED


def wait_until_gone(place: Place) -> None:
    """Wait until PostgreSQL has noticed that its client is gone; SQLite needs no waiting."""
    journal = place.opened[0]
    with journal.database.writing() as connection:
        holders = list(connection.exec_driver_sql("SELECT DISTINCT holder FROM calls").scalars())
    for _ in range(500):
        if not any(journal.holders.alive(each) for each in holders if each != journal.holders.name):
            return
        time.sleep(0.01)


def test_a_look_at_the_locks_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process without a lock may be of a user who can only read there."""
    folder = tmp_path / "locks"
    holder, reader = FileHolders(folder), FileHolders(folder, takes_lock=False)
    (folder / "1-gone.lock").touch()
    flags, real = [], os.open

    def noted(path: Path, how: int, mode: int = 0o777) -> int:
        flags.append(how)
        return real(path, how, mode)

    monkeypatch.setattr(os, "open", noted)
    alive = [reader.alive(name) for name in (holder.name, "1-gone", "2-never-there")]
    assert alive == [True, False, False]
    assert flags == [os.O_RDONLY] * 3
    assert {file.stem for file in folder.iterdir()} == {holder.name, "1-gone"}
    holder.release()


def test_one_sqlite_journal_has_one_folder_of_locks_whatever_the_home(
    tmp_path: Path, sqlite_place: Place
) -> None:
    """Two HOMEs on one journal by URL see each other's processes."""
    one = sqlite_place.open()
    key = (sqlite_place.home / "data.key").read_text()
    other = sqlite_place.open(
        home=tmp_path / "elsewhere",
        url=f"sqlite:///{sqlite_place.home / 'journal.sqlite'}",
        data_key=key,
    )
    reserve(one, 1)
    assert reserve(other, 1)[0][1].kind is ReservationStatus.HELD
