"""Quarantine and problems: safe in a spreadsheet, fed back without loss, whole or not at all."""

from __future__ import annotations

import re
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nightscreen.files.quarantine import (
    PROBLEM_COLUMNS,
    append_problems,
    csv_file,
    escape_formula,
    unescape_formula,
)
from nightscreen.reading.open_file import open_source
from nightscreen.schemas.decisions import QUARANTINE_COLUMNS
from nightscreen.schemas.rows import Action, Problem, RefusedRow

CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0")) | st.sampled_from(
    [
        "+2348031234567",
        "-5",
        "=1+1",
        "'=x",
        "''@",
        "'x",
        "@a",
        "\t1",
        "\r",
        "\uff1d1",
        "a\r\nb",
        '"',
    ]
)


def refused(line: int, *values: str | None) -> RefusedRow:
    return RefusedRow(line, "bvn", "no_identifier", "give one", values)


@given(CELLS)
@example("'" * 3 + "=x")
def test_the_guard_is_reversible(cell: str) -> None:
    """Every cell comes back, and no guarded one begins a formula."""
    assert unescape_formula(escape_formula(cell)) == cell
    assert not re.match(r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]", escape_formula(cell))


@settings(deadline=None)
@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=12))
def test_a_quarantine_file_feeds_back_without_loss(rows: list[tuple[str, str]]) -> None:
    """What was refused is read back exactly, without the columns that were added."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "quarantine.csv"
        with csv_file(path, ["customer_id", "phone", "=odd", *QUARANTINE_COLUMNS]) as write:
            for at, row in enumerate(rows, start=2):
                write(refused(at, "C1", *row).cells(3))
        source = open_source(path)
        back = [list(r.values()) for b in source.batches() for r in b.columns.to_pylist()]
    assert back == [["C1", *row] for row in rows]
    assert [column.heading for column in source.header.columns] == ["customer_id", "phone", "=odd"]


def test_a_file_appears_whole_and_private_or_not_at_all(tmp_path: Path) -> None:
    """Nothing is seen before the end, nothing is left after an exception."""
    path = tmp_path / "problems.csv"
    with csv_file(path, PROBLEM_COLUMNS):
        assert not path.exists()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()

    def interrupted(write: Callable[[list[str | int]], None]) -> None:
        write(refused(2, "x").cells(1))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), csv_file(path, ["a"]) as write:
        interrupted(write)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["problems.csv"]


def test_later_findings_are_added_to_the_same_file(tmp_path: Path) -> None:
    """What is found after intake stands behind what was found there; the file stays private."""
    path = tmp_path / "problems.csv"
    problem = Problem(3, "=image_url", "image_host_unknown", "No such host.", Action.INVALID)
    with csv_file(path, PROBLEM_COLUMNS) as write:
        write(Problem(2, "bvn", "bvn_short", "Too short.", Action.INVALID).cells)
    append_problems(path, [problem])
    append_problems(path, [])
    assert path.read_text(encoding="utf-8").splitlines() == [
        "line,column,code,hint,action",
        "2,bvn,bvn_short,Too short.,invalid",
        "3,'=image_url,image_host_unknown,No such host.,invalid",
    ]
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["problems.csv"]
