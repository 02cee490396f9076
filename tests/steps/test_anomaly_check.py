"""Plausibility: a night unlike its fellows is held, and released only by somebody with a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightscreen.files.run_folder import RunFolder
from nightscreen.journal.actor import Actor
from nightscreen.report.anomaly_check import earlier_reports, hold, plausible
from nightscreen.runs.release import release
from nightscreen.schemas.errors import InputError
from tests.begun import begin_run
from tests.steps.nights_in_a_test import BATCH, Nights


def report(run_id: str, *, publishable: bool = True, **karma: int) -> dict[str, Any]:
    """Return what matters of a report: one check and its answers."""
    checks = {"karma": {"answers": {"ineligible": 3, **karma}}}
    return {"run_id": run_id, "publishable": publishable, "checks": checks, "state": "completed"}


USUAL = [report(f"run-{n}", clear=4750, listed=250) for n in range(14)]


def test_a_usual_night_is_plausible() -> None:
    """Rates that move within half and twice the median hold nothing."""
    assert plausible(report("t", clear=4600, listed=400), USUAL) == []
    assert plausible(report("t", clear=4860, listed=140), USUAL) == []


@pytest.mark.parametrize("listings", [100, 600])
def test_a_rate_outside_half_to_twice_its_median_holds(listings: int) -> None:
    """The sentence names check, rate and median."""
    found = plausible(report("t", clear=5000 - listings, listed=listings), USUAL)
    assert len(found) == 1
    assert "Karma" in found[0]
    assert "5.00%" in found[0]


def test_answers_that_are_all_alike_hold() -> None:
    """Even on the first night, and even if the rate is near the median."""
    assert len(plausible(report("t", clear=500), [])) == 1
    assert plausible(report("t", clear=900, listed=20), []) == []


def test_alike_as_ever_is_plausible() -> None:
    """Where earlier released nights were all alike too, another is no news."""
    nights = [report(f"run-{n}", clear=900) for n in range(3)]
    assert plausible(report("t", clear=900), nights) == []


def test_chance_alone_holds_nothing() -> None:
    """Three listings against an expected one are no fault of the service."""
    nights = [report(f"run-{n}", clear=499, listed=1) for n in range(14)]
    assert plausible(report("t", clear=497, listed=3), nights) == []


def again(document: dict[str, Any], **before: int) -> dict[str, Any]:
    """Return a report that says what those asked tonight had been before."""
    document["checks"]["karma"]["asked_again"] = before
    return document


def test_asking_only_the_clear_again_tells_few_listings() -> None:
    """Who was clear before will mostly be clear again; too many listings hold all the same."""
    assert plausible(again(report("t", clear=4990, listed=10), clear=5000), USUAL) == []
    assert plausible(again(report("t", clear=5000, listed=0), clear=5000), USUAL) == []
    assert len(plausible(again(report("t", clear=4400, listed=600), clear=5000), USUAL)) == 1


def test_asking_only_the_listed_again_tells_many() -> None:
    """A night on which only listings grew old is no fault of the service."""
    assert plausible(again(report("t", clear=20, listed=980), listed=1000), USUAL) == []
    found = plausible(again(report("t", clear=1000, listed=0), listed=1000), USUAL)
    assert any("every answer is clear" in each for each in found)


def test_half_asked_for_the_first_time_must_have_its_listings() -> None:
    """What is expected of those never asked before is the usual share."""
    assert plausible(again(report("t", clear=4870, listed=130), clear=2500), USUAL) == []
    assert len(plausible(again(report("t", clear=4990, listed=10), clear=2500), USUAL)) == 1


def test_held_nights_are_no_measure() -> None:
    """A fault is not made usual by repeating itself, and a night is not measured by itself."""
    faulty = [report(f"bad-{n}", publishable=False, clear=100, listed=4900) for n in range(20)]
    own = report("t", clear=100, listed=4900)
    assert len(plausible(own, [own, *faulty, *USUAL])) == 2


@given(
    st.integers(0, 3000),
    st.integers(0, 3000),
    st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 3000)), max_size=16),
)
def test_any_counts_are_judged(clear: int, listings: int, past: list[tuple[int, int]]) -> None:
    """No night breaks the judgement; the same night over and over is plausible."""
    nights = [report(f"run-{n}", clear=a, listed=b) for n, (a, b) in enumerate(past)]
    tonight = report("t", clear=clear, listed=listings)
    plausible(tonight, nights)
    assert plausible(tonight, [{**tonight, "run_id": "y"}]) == []


def held_run(tmp_path: Path) -> tuple[Nights, RunFolder]:
    """Return a journal with one held run, and its folder."""
    nights = Nights(tmp_path)
    folder = nights.folder("run-1")
    begin_run(nights.journal, "run-1", batch=BATCH, folder=str(folder.path))
    document = hold(report("run-1", clear=600), ["Karma: every answer is clear"])
    folder.write_json("report.json", document)
    folder.write_json("manifest.json", {"publishable": False, "files": folder.files()})
    nights.journal.runs.finish("run-1", state="completed", stop_reason=None, report=document)
    return nights, folder


def test_a_held_run_is_released_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Journal, report and manifest say publishable from then on, and why."""
    monkeypatch.setattr("nightscreen.runs.release.report_page", lambda _: "page")
    nights, folder = held_run(tmp_path)
    release(nights.journal, Actor("Ada"), "run-1", "A new branch of salaried customers.")
    written = json.loads((folder.path / "report.json").read_text("utf-8"))
    manifest = json.loads((folder.path / "manifest.json").read_text("utf-8"))
    assert written["publishable"] is manifest["publishable"] is True
    assert written["released"]["reason"] == "A new branch of salaried customers."
    assert manifest["files"]["report.json"] == folder.files()["report.json"]
    assert earlier_reports(nights.journal, BATCH, "run-2")[0]["publishable"] is True
    with pytest.raises(InputError, match="not held"):
        release(nights.journal, Actor("Ada"), "run-1", "again")
    nights.journal.close()


@pytest.mark.parametrize(("run_id", "reason"), [("run-9", "because"), ("run-1", " ")])
def test_release_needs_a_run_and_a_reason(tmp_path: Path, run_id: str, reason: str) -> None:
    """A wrong run or a blank reason is bad usage."""
    nights, _ = held_run(tmp_path)
    with pytest.raises(InputError):
        release(nights.journal, Actor("Ada"), run_id, reason)
    nights.journal.close()
