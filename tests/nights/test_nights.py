"""The standard nights come out as they are kept, and the comparison sees what does not."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.nights.comparison import (
    MEASURE,
    NOTHING,
    Reason,
    differences,
    judged,
    read_kept,
    read_reasons,
)
from tests.nights.outputs import cells, rows_of, written
from tests.nights.spent import WORLDS

if TYPE_CHECKING:
    from tests.nights.standard import StandardNight, StandardNights


@pytest.mark.parametrize("name", WORLDS)
def test_a_standard_night_is_what_is_kept_of_it(standard_night: StandardNight, name: str) -> None:
    """Whoever changes it on purpose gives a reason in `reasons.toml`, or keeps the new measure."""
    found = list(differences(name, read_kept(name), standard_night(name).outputs))
    unnamed, _ = judged(found, read_reasons())
    assert not unnamed, "\n".join(map(str, unnamed[:40]))


def test_every_reason_names_something(standard_night: StandardNight) -> None:
    """A reason that is left over would hide the next difference."""
    reasons = read_reasons()
    found = [
        each
        for name in (WORLDS if reasons else ())
        for each in differences(name, read_kept(name), standard_night(name).outputs)
    ]
    assert not judged(found, reasons)[1]


@pytest.fixture
def kept() -> dict[str, Any]:
    """Return the measure of the plain night."""
    return read_kept("plain")


def _told(kept: dict[str, Any], found: dict[str, Any]) -> list[tuple[str, str, Any, Any]]:
    return [
        (each.file, each.path, each.kept, each.found) for each in differences("plain", kept, found)
    ]


def test_a_changed_value_is_told_where_it_is(kept: dict[str, Any]) -> None:
    """In the report, and in the cell of a row."""
    found = copy.deepcopy(kept)
    found["report.json"]["checks"]["karma"]["paid"] += 1
    table = found["enriched"]
    decided = cells(table["columns"]["decision word"], table["rows"])
    table["columns"]["decision word"] = ["decline", *decided[1:]]
    assert _told(kept, found) == [
        ("enriched", "CUST-0000001.decision", decided[0], "decline"),
        ("report.json", "checks.karma.paid", 1, 2),
    ]


def test_a_lost_row_is_one_difference(kept: dict[str, Any]) -> None:
    """The rows after it are compared with themselves."""
    found = copy.deepcopy(kept)
    table = found["decisions.csv"]
    listed = rows_of(table)
    for name in table["columns"]:
        table["columns"][name] = [row[name] for row in listed if row is not listed[1]]
    table["rows"] -= 1
    lost = listed[1]["customer_id"]
    assert _told(kept, found) == [("decisions.csv", lost, "a row", NOTHING)]


def test_a_new_column_file_or_order_is_told(kept: dict[str, Any]) -> None:
    """An empty column is one too."""
    found = copy.deepcopy(kept)
    found["enriched"]["columns"]["score int64"] = {}
    del found["notices.csv"]
    changes = found["changes.parquet"]["columns"]
    changes["run_id word"] = changes.pop("run_id word")
    first, *others = list(changes)
    found["changes.parquet"]["columns"] = {name: changes[name] for name in (*others, first)}
    told = _told(kept, found)
    assert ("enriched", "(columns).score int64", NOTHING, "a column") in told
    assert ("notices.csv", "", "a file", NOTHING) in told
    assert [path for file, path, *_ in told if file == "changes.parquet"] == ["(columns).(order)"]


def test_a_reason_names_what_it_matches_and_no_more(kept: dict[str, Any]) -> None:
    """One that matches nothing is told itself."""
    found = copy.deepcopy(kept)
    found["report.json"]["checks"]["karma"]["paid"] += 1
    found["report.json"]["rows"]["read"] += 1
    told = list(differences("plain", kept, found))
    reasons = [
        Reason("*", "report.json", "checks.*.paid", "a call more"),
        Reason("capped", "*", "*", "another night"),
    ]
    unnamed, needless = judged(told, reasons)
    assert [each.path for each in unnamed] == ["rows.read"]
    assert [each.night for each in needless] == ["capped"]


def test_the_measure_is_of_these_nights_and_stays_small() -> None:
    """No file of a night that is no more, and under half a megabyte in all."""
    kept = list(MEASURE.iterdir())
    assert {path.stem for path in kept} == set(WORLDS)
    assert sum(path.stat().st_size for path in kept) < 500_000


@pytest.mark.parametrize("name", WORLDS)
def test_a_measure_is_as_the_program_writes_it(name: str) -> None:
    """Keeping it anew shows the differences of the night and none of form."""
    text = (MEASURE / f"{name}.json").read_text("utf-8")
    assert text == f"{written(json.loads(text))}\n"


def test_who_changes_a_standard_night_is_found_out(standard_nights: StandardNights) -> None:
    """Also where permissions hold nobody, as for the system's own user."""
    folder = standard_nights.get("plain").night.folder
    report = folder / "report.json"
    content, mode = report.read_bytes(), report.stat().st_mode
    assert not mode & 0o222
    report.chmod(mode | 0o200)
    report.write_bytes(content + b"\n")
    assert standard_nights.changed() == [f"plain/out/{folder.name}/report.json"]
    report.write_bytes(content)
    report.chmod(mode)
    standard_nights.changed()
