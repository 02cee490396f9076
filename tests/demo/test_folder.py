"""Where a demo puts its files: afresh each time, and never over what no demo made."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightscreen.cli.demo import MARKER, prepare_folder
from nightscreen.schemas.errors import UsageError


def _earlier(output: Path) -> None:
    """Leave what an earlier demo leaves, and something that is not the demo's."""
    (output / "home").mkdir(parents=True)
    (output / "out").mkdir()
    for name in (MARKER, "customers.csv", "home/journal.sqlite", "my-notes.txt"):
        (output / name).touch()


def test_each_demo_begins_afresh(tmp_path: Path) -> None:
    """What the earlier one made is gone; what a user put beside it stays."""
    _earlier(tmp_path / "demo")
    folder = prepare_folder(tmp_path / "demo")
    assert sorted(each.name for each in folder.iterdir()) == [MARKER, "my-notes.txt"]


def test_a_folder_that_no_demo_made_is_left_alone(tmp_path: Path) -> None:
    """`--output .` must not cost anybody their files."""
    (tmp_path / "customers.csv").write_text("mine")
    with pytest.raises(UsageError, match="holds something that no demo made"):
        prepare_folder(tmp_path)
    assert (tmp_path / "customers.csv").read_text() == "mine"
