"""The sealed workspace of a run."""

from __future__ import annotations

import stat
from pathlib import Path

import pyarrow as pa
import pytest

from nightscreen.files.sealed_file import Workspace
from nightscreen.files.sealing import Sealer
from nightscreen.schemas.errors import JournalDamagedError, JournalError

SEALER = Sealer(b"k" * 32)
ROWS = pa.table({"bvn": ["22212345678", None], "n": [1, 2]})


def test_nothing_can_be_read_from_the_disk(tmp_path: Path) -> None:
    """Neither identifiers nor column names are in the files; all are private."""
    space = Workspace.of(tmp_path, "run-1", SEALER)
    space.put("rows", ROWS)
    (file,) = space.folder.iterdir()
    assert b"22212345678" not in file.read_bytes()
    assert b"bvn" not in file.read_bytes()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(space.folder.stat().st_mode) == 0o700


def test_a_piece_does_not_open_under_another_name_or_run(tmp_path: Path) -> None:
    """Pieces that were moved are noticed."""
    space = Workspace.of(tmp_path, "run-1", SEALER)
    other = Workspace.of(tmp_path, "run-2", SEALER)
    space.put("rows", ROWS)
    sealed = (space.folder / "rows.sealed").read_bytes()
    (space.folder / "other.sealed").write_bytes(sealed)
    (other.folder / "rows.sealed").write_bytes(sealed)
    for where, name in ((space, "other"), (other, "rows")):
        with pytest.raises(JournalDamagedError):
            where.get(name)


def test_a_missing_piece_says_what_to_do(tmp_path: Path) -> None:
    """After it was cleared, nothing is left and the error is ours."""
    space = Workspace.of(tmp_path, "run-1", SEALER)
    space.put("rows", ROWS)
    space.clear()
    space.clear()
    assert not space.folder.exists()
    with pytest.raises(JournalError, match="start the run again"):
        space.get("rows")
