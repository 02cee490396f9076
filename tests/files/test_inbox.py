"""The inbox on disk: what counts as dropped, as whole, as free; and who gets a file."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nightscreen.files.inbox import (
    RESULT,
    Inbox,
    Ticket,
    is_dropped,
    is_whole,
)


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return Inbox.open(tmp_path / "inbox", tmp_path / "home")


@pytest.mark.parametrize(
    "name",
    [
        *(".hidden.csv", "~$list.xlsx", ".~lock.list.ods#", "list.csv.part", "list.xlsx.filepart"),
        *("list.csv.crdownload", "list.tmp", "Thumbs.db", "desktop.ini", "list.csv~", ".list.a1b2"),
    ],
)
def test_what_programs_leave_is_not_taken_for_a_file(name: str) -> None:
    """Locks of office programs, unfinished copies, hidden files."""
    assert not is_dropped(name)


def _make(folder: Path) -> list[Path]:
    book = openpyxl.Workbook()
    book.create_sheet("more").append(["customer_id"] * 50)
    book.save(folder / "a.xlsx")
    pq.write_table(pa.table({"customer_id": ["C1", "C2"]}), folder / "b.parquet")
    (folder / "c.csv").write_text("customer_id,bvn\nC1,22000000001\n")
    return sorted(folder.iterdir())


def test_files_cut_anywhere_are_told_from_whole_ones(tmp_path: Path) -> None:
    """A workbook and a Parquet file at any byte; a text where its last line lacks its end."""
    for path in _make(tmp_path):
        data = path.read_bytes()
        assert is_whole(path), path
        for end in range(1, len(data), max(1, len(data) // 40)):
            if path.suffix == ".csv" and data[:end].endswith((b"\n", b"\r")):
                continue
            path.write_bytes(data[:end])
            assert not is_whole(path), (path, end)


def test_of_many_watchers_one_gets_a_file(inbox: Inbox, tmp_path: Path) -> None:
    """A claim is a rename; the others go away empty-handed and leave nothing behind."""
    for number in range(20):
        (inbox.path / f"{number}.csv").write_text("customer_id\n")
    got: list[Ticket] = []
    begin = threading.Barrier(4)

    def watch() -> None:
        own = Inbox.open(inbox.path, tmp_path / "home")
        begin.wait()
        for number in range(20):
            ticket = own.claim(f"{number}.csv", f"{number}.csv", "t")
            if ticket is not None:
                got.append(ticket)

    watchers = [threading.Thread(target=watch) for _ in range(4)]
    for watcher in watchers:
        watcher.start()
    for watcher in watchers:
        watcher.join()
    assert sorted(ticket.name for ticket in got) == sorted(f"{n}.csv" for n in range(20))
    assert len(list((inbox.path / "taken").iterdir())) == 20
    assert inbox.look() == {}


def test_what_a_dead_process_took_is_found_again(inbox: Inbox) -> None:
    """While it is held nobody else sees it; afterwards under its name and with its attempts."""
    (inbox.path / "22123456789.csv").write_text("customer_id\n")
    ticket = inbox.claim("22123456789.csv", "file.csv", "t")
    assert ticket is not None
    ticket.count_attempt()
    assert list(inbox.orphaned_tickets()) == []
    ticket.release()
    (again,) = inbox.orphaned_tickets()
    assert (again.name, again.file.name, again.attempts) == ("22123456789.csv", "file.csv", 1)
    assert again.renamed


def test_a_crash_within_the_move_can_be_gone_over_again(inbox: Inbox) -> None:
    """The texts go first, the file last; moving again completes it."""
    (inbox.path / "a.csv").write_text("customer_id\n")
    ticket = inbox.claim("a.csv", "a.csv", "t")
    assert ticket is not None
    ticket.write(RESULT, "first")
    folder = inbox.done / "run"
    folder.mkdir()
    shutil.move(ticket.folder / RESULT, folder / RESULT)
    ticket.release()
    (again,) = inbox.orphaned_tickets()
    again.write(RESULT, "second")
    again.move(folder, folder / "input" / "a.csv")
    assert (folder / RESULT).read_text() == "second"
    assert (folder / "input" / "a.csv").exists()
    assert list((inbox.path / "taken").iterdir()) == []
