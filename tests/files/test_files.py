"""Private files: whole or not at all, readable by their owner alone."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from nightscreen.files.private_files import (
    atomic_write,
    make_private_folder,
    write_private,
    write_private_once,
)
from nightscreen.schemas.errors import OutputError


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folders_and_files_are_their_owners_alone(tmp_path: Path) -> None:
    """Whatever the umask says, also where the folder was there before."""
    old = os.umask(0)
    try:
        folder = tmp_path / "a" / "b"
        folder.mkdir(parents=True, mode=0o777)
        make_private_folder(folder)
        write_private(folder / "x", b"1")
        assert write_private_once(folder / "y", b"2")
    finally:
        os.umask(old)
    assert (mode(folder), mode(folder / "x"), mode(folder / "y")) == (0o700, 0o600, 0o600)


def test_a_failure_leaves_the_old_file_and_no_part(tmp_path: Path) -> None:
    """An error in the middle of writing changes nothing."""
    file = tmp_path / "x"
    write_private(file, b"old")

    def fail() -> None:
        with atomic_write(file) as partial:
            partial.write_bytes(b"half")
            raise OSError(28, "No space left on device")

    with pytest.raises(OutputError, match="No space left"):
        fail()
    assert file.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["x"]


def test_what_is_written_once_stays(tmp_path: Path) -> None:
    """Of many that write at once one wins, and all see its file whole."""
    file = tmp_path / "key"
    wrote: list[bool] = []
    threads = [
        threading.Thread(target=lambda n=n: wrote.append(write_private_once(file, bytes([n]) * 9)))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrote.count(True) == 1
    assert len(set(file.read_bytes())) == 1
    assert [each.name for each in tmp_path.iterdir()] == ["key"]
