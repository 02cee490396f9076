"""SQLite under hardship: power loss, full disk, locks, damage, strange files, permissions."""

from __future__ import annotations

import random
import resource
import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from nightscreen.journal.verify import verify_journal
from nightscreen.schemas.errors import (
    JournalBusyError,
    JournalDamagedError,
    JournalError,
    SettingsError,
)
from tests.forked import Forked
from tests.journal.conftest import Place, ended, reserve

PAGE = 4096


def fill(place: Place, groups: int) -> None:
    journal = place.open()
    for group in range(groups):
        pairs = reserve(journal, *range(10 * group, 10 * group + 10))
        journal.calls.settle("run-1", [ended(pair, body=b"x" * 300) for pair in pairs[:5]])


def pragma(place: Place, name: str) -> object:
    with place.open().database.reading() as connection:
        return connection.execute(text(f"PRAGMA {name}")).scalar()


def copy_home(home: Path, target: Path) -> Place:
    """Copy a HOME as it lies on disk, while it is open, as a power loss would leave it."""
    shutil.copytree(home, target)
    return Place(target, "")


def test_commits_last_through_power_loss_by_setting(sqlite_place: Place) -> None:
    """Write-ahead log and full sync are on in every connection."""
    assert pragma(sqlite_place, "journal_mode") == "wal"
    assert pragma(sqlite_place, "synchronous") == 2
    assert pragma(sqlite_place, "secure_delete") == 1


@pytest.mark.parametrize("seed", range(4))
def test_power_loss_costs_a_suffix_of_commits_only(
    sqlite_place: Place, tmp_path: Path, seed: int
) -> None:
    """Wherever the log is cut, what is left is whole, consistent, and the beginning of history."""
    sqlite_place.open()
    made = (sqlite_place.home / "journal.sqlite-wal").stat().st_size
    fill(sqlite_place, 6)
    after = copy_home(sqlite_place.home, tmp_path / "after")
    log = after.home / "journal.sqlite-wal"
    (after.home / "journal.sqlite-shm").unlink()
    dice = random.Random(seed)
    keep = dice.randrange(log.stat().st_size)
    with log.open("r+b") as file:
        file.truncate(keep)
        if seed % 3 == 0:
            file.seek(dice.randrange(made, keep) if keep > made else keep)
            file.write(b"\x5a")
    if keep < made:
        with pytest.raises(JournalError, match="remembers a journal"):
            after.open()
        return
    journal = after.open()
    assert verify_journal(journal) == []
    kept = [row for rows in journal.runs.calls("run-1") for row in rows]
    before = [row for rows in sqlite_place.open().runs.calls("run-1") for row in rows]
    assert [row.call_id for row in kept] == [row.call_id for row in before[: len(kept)]]
    assert len(kept) % 10 == 0
    after.close()


def test_files_are_private(sqlite_place: Place) -> None:
    """The journal, its log and its locks can be read by their owner alone."""
    sqlite_place.home.mkdir(mode=0o755)
    fill(sqlite_place, 1)
    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode)
        for path in sqlite_place.home.rglob("*")
        if path.is_file()
    }
    assert {"journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm", "data.key"} <= set(modes)
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(sqlite_place.home.stat().st_mode) == 0o700


def test_a_full_disk_is_told_and_harms_nothing(sqlite_place: Place) -> None:
    """Nothing of the group that did not fit is kept; with room again all goes on."""
    journal = sqlite_place.open()
    pairs = reserve(journal, *range(40))
    with journal.database.reading() as connection:
        pages = connection.execute(text("PRAGMA page_count")).scalar()
        connection.execute(text(f"PRAGMA max_page_count={pages}"))
    big = [ended(pair, body=b"x" * 5000) for pair in pairs]
    with pytest.raises(JournalError, match=r"disk of the journal .* is full"):
        journal.calls.settle("run-1", big)
    assert verify_journal(journal) == []
    with journal.database.reading() as connection:
        connection.execute(text("PRAGMA max_page_count=1000000"))
    journal.calls.settle("run-1", big)
    assert journal.money.of_run("run-1").reserved_micro == 0


def test_a_disk_without_room_to_open_the_journal_is_told(sqlite_place: Place) -> None:
    """It says that the disk may be full, and how much is free where."""
    sqlite_place.open().close()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 * PAGE, hard))
    try:
        said = (
            r"disk of the journal .*journal.sqlite may be full, or faulty .*: [\d,.]+ MB are free"
        )
        with pytest.raises(JournalError, match=said):
            sqlite_place.open()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    sqlite_place.open().close()


def test_a_lock_of_another_process_is_waited_for_and_then_told(sqlite_place: Place) -> None:
    """The wait ends with an error of its own; afterwards everything goes on."""
    journal = sqlite_place.open(busy_timeout_s=0.2)
    with closing(sqlite3.connect(sqlite_place.home / "journal.sqlite")) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalBusyError, match=r"locked by another process for 0\.2 s"):
            reserve(journal, 1)
        assert journal.money.today().calls == 0  # reading goes on
        other.rollback()
    assert reserve(journal, 1)[0][1].call_id == 1


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "head": lambda data: random.Random(1).randbytes(512) + data[512:],
    "first page": lambda data: data[:100] + random.Random(2).randbytes(3000) + data[3100:],
    "cut": lambda data: data[: len(data) // 2 // PAGE * PAGE],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_told_and_left_untouched(
    sqlite_place: Place, damage: Callable[[bytes], bytes]
) -> None:
    """Opening it again and again changes no byte of file or log."""
    fill(sqlite_place, 3)
    sqlite_place.close()
    sqlite_place.is_damaged = True
    file = sqlite_place.home / "journal.sqlite"
    file.write_bytes(damage(file.read_bytes()))
    log = sqlite_place.home / "journal.sqlite-wal"
    log.write_bytes(b"")
    before = file.read_bytes()
    for _ in range(2):
        with pytest.raises(JournalDamagedError, match="left untouched"):
            sqlite_place.open()
    assert file.read_bytes() == before
    assert not log.exists() or log.read_bytes() == b""


def test_damage_beside_a_log_that_was_not_folded_in_leaves_both_untouched(
    sqlite_place: Place, tmp_path: Path
) -> None:
    """After a crash the log holds commits; nothing of it is written over a damaged file."""
    fill(sqlite_place, 3)
    sqlite_place.close()
    fill(sqlite_place, 1)
    crashed = copy_home(sqlite_place.home, tmp_path / "crashed")
    file, log = crashed.home / "journal.sqlite", crashed.home / "journal.sqlite-wal"
    data = file.read_bytes()
    file.write_bytes(data[:PAGE] + random.Random(3).randbytes(len(data) - PAGE))
    before = (file.read_bytes(), log.read_bytes())
    assert before[1]
    with pytest.raises(JournalDamagedError, match="left untouched"):
        crashed.open()
    assert (file.read_bytes(), log.read_bytes()) == before


def test_verify_finds_damage_seals_and_wrong_counters(sqlite_place: Place) -> None:
    """What was changed behind the journal's back is named."""
    fill(sqlite_place, 2)
    sqlite_place.is_damaged = True
    with closing(sqlite3.connect(sqlite_place.home / "journal.sqlite")) as other:
        other.execute("UPDATE spend SET spent_micro = spent_micro + 1 WHERE scope LIKE 'month:%'")
        other.execute("DELETE FROM spend WHERE scope LIKE 'run:%'")
        other.execute("UPDATE answers SET body = zeroblob(40) WHERE answer_id = 1")
        other.execute("DELETE FROM answers WHERE answer_id = 2")
        other.commit()
    findings = verify_journal(sqlite_place.open())
    assert [each.split(" do not")[0] for each in findings] == [
        "1 sealed values of the table answers",
        "1 answered calls have no stored answer",
        "the counters of month:2026-02",
        "the counters of run:run-1",
    ]


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?uri=true"])
def test_a_journal_that_would_not_last_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(SettingsError, match="a file that lasts"):
        Place(tmp_path / "home", url).open()


def test_processes_that_open_a_new_journal_at_once_share_one(sqlite_place: Place) -> None:
    """There is one journal and one key, whoever came first."""

    def opened() -> str:
        journal = sqlite_place.open()
        return f"{journal.journal_id} {journal.pseudonyms.subject('bvn', '1').hex()}"

    with Forked(opened) as one, Forked(opened) as other:
        assert one.told() == other.told() != ""
