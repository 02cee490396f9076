"""Where a demo puts its files: afresh each time, and never over what no demo made."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightscreen.cli.demo import MARKER, prepare_folder
from nightscreen.schemas.errors import UsageError


def test_each_demo_begins_afresh_and_never_over_what_no_demo_made(tmp_path: Path) -> None:
    """What the earlier one made is gone, what a user put beside it stays.

    `--output .` must not cost anybody their files.
    """
    earlier = tmp_path / "demo"
    (earlier / "home").mkdir(parents=True)
    (earlier / "out").mkdir()
    for name in (MARKER, "customers.csv", "home/journal.sqlite", "my-notes.txt"):
        (earlier / name).touch()
    folder = prepare_folder(earlier)
    assert sorted(each.name for each in folder.iterdir()) == [MARKER, "my-notes.txt"]
    (tmp_path / "customers.csv").write_text("mine")
    with pytest.raises(UsageError, match="holds something that no demo made"):
        prepare_folder(tmp_path)
    assert (tmp_path / "customers.csv").read_text() == "mine"
