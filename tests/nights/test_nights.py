"""The standard nights have their saved outputs."""

from __future__ import annotations

import pytest

from tests.nights.spent import WORLDS
from tests.nights.standard import MEASURE, StandardNight, StandardNights, differences


@pytest.mark.parametrize("name", WORLDS)
def test_a_standard_night_is_what_is_kept_of_it(standard_night: StandardNight, name: str) -> None:
    """After a change on purpose, save the new outputs: `python -m tests.nights --keep`."""
    difference = differences(standard_night(name))
    assert not difference, difference


def test_the_measure_is_of_these_nights() -> None:
    assert {path.stem for path in MEASURE.iterdir()} == set(WORLDS)


def test_who_changes_a_standard_night_is_found_out(standard_nights: StandardNights) -> None:
    """Also if permissions do not stop the user, as with root."""
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
