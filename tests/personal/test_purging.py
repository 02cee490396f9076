"""Retention: each kind goes at its own age, nothing held or under way, and it is reported."""

from __future__ import annotations

from typing import Any

import pytest

from nightscreen.config.settings import Retention
from nightscreen.files.run_folder import RunFiles
from nightscreen.journal import open_journal
from nightscreen.journal.audit import Audit, AuditQuery
from nightscreen.journal.verify import verify_journal
from nightscreen.privacy.purging import PURGED, due, hold, purge, release
from nightscreen.schemas.clock import DAY_MICROS, system_clock
from nightscreen.schemas.errors import InputError
from tests.begun import begin_run
from tests.laws import all_calls
from tests.screening import CONSENT, Night, Screened, World, customer

ROWS = [
    *(customer(number, **CONSENT) for number in (1, 2, 3)),
    {"customer_id": "", "bvn": "22000000099"},
]
PERSONAL = {
    "calls.parquet",
    "changes.parquet",
    "decisions.csv",
    "decisions.xlsx",
    "enriched/part-00000.parquet",
    "notices.csv",
    "quarantine.csv",
}
ROWS_IN_CLEAR = {"enriched/part-00000.parquet", "decisions.xlsx"}


@pytest.fixture(scope="module")
def screened(tmp_path_factory: pytest.TempPathFactory) -> Screened:
    return Screened(tmp_path_factory.mktemp("screened"), lambda world: [world.screen(ROWS)])


@pytest.fixture
def night(world: World, screened: Screened) -> Night:
    return screened.put_back(world)[0]


def purged(
    world: World, days: float, *, dry: bool = False, retention: Retention | None = None
) -> dict[str, Any]:
    """Purge as if so many days had gone by."""
    at = system_clock() + int(days * DAY_MICROS)
    with open_journal(world.folder / "home", clock=lambda: at) as journal:
        found = due(journal, retention or Retention())
        done = found.document() if dry else purge(journal, found)
        assert verify_journal(journal) == []
    return done


def left(night: Night) -> set[str]:
    found = {path.relative_to(night.folder).as_posix() for path in night.folder.rglob("*")}
    return found & PERSONAL


AGES: dict[int, set[str]] = {
    29: set(),
    31: {"quarantine.csv"},
    397: {"quarantine.csv", *ROWS_IN_CLEAR},
    2193: PERSONAL,
}
"""Days after the night, and what is gone by then."""


def test_each_kind_goes_at_its_age(world: World, night: Night) -> None:
    """Quarantine after 30 days, rows in clear after 13 months, evidence after six years."""
    before: set[str] = set()
    for days, gone in AGES.items():
        assert left(night) == PERSONAL - before
        done = purged(world, days)
        assert left(night) == PERSONAL - gone
        assert done["removed_files"] == len(gone - before)
        manifest = night.manifest
        assert not gone & manifest["files"].keys()
        assert "report.json" in manifest["files"]
        if gone:
            assert manifest["rewritten"][-1]["reason"] == "retention"
            assert set(manifest["rewritten"][-1]["files"]) == gone - before
        before = gone


def test_evidence_leaves_calls_with_cost_and_time(world: World, night: Night) -> None:
    """After six years no body, no pseudonym, no state is left; every naira still adds up.

    A dry run says exactly what goes, and removes nothing.
    """
    with open_journal(world.folder / "home") as journal:
        run_id = night.report["run_id"]
        before = (journal.money.of_run(run_id), journal.runs.charges_of_late())
    said = purged(world, 2193, dry=True)
    assert left(night) == PERSONAL
    assert {name for each in said["files"] for name in each["files"]} == PERSONAL
    done = purged(world, 2193)
    for volatile in ("answered_before", "decided_before"):
        said["journal"].pop(volatile)
        done["journal"].pop(volatile)
    assert said == {name: done[name] for name in said}
    assert done["journal"]["answers"] == done["journal"]["calls"] == 9
    assert done["journal"]["states"] == 4  # three customers, and the open case of one
    with open_journal(world.folder / "home") as journal:
        assert (journal.money.of_run(run_id), journal.runs.charges_of_late()) == before
        rows = all_calls(journal)
        assert {bytes(row.subject) for row in rows} == {bytes(16)}
        assert all(row.cost_micro is not None and row.settled_at for row in rows)
        (line,) = Audit(journal).find(AuditQuery(action=PURGED))
        assert (line["detail"]["answers"], line["detail"]["files"]) == (9, 7)
    assert purged(world, 2193)["journal"]["calls"] == 0


def test_settings_and_the_option_replace_periods(world: World, night: Night) -> None:
    """Each period by itself, or all of them at once."""
    purged(world, 8, retention=Retention(enriched_days=7))
    assert PERSONAL - left(night) == ROWS_IN_CLEAR
    purged(world, 8, retention=Retention.all_of(9))
    assert PERSONAL - left(night) == ROWS_IN_CLEAR
    purged(world, 8, retention=Retention.all_of(7))
    assert left(night) == set()


def test_a_legal_hold_goes_first(world: World, night: Night) -> None:
    """Nothing of a held run goes, and no evidence it may rest on, until it is released."""
    run_id = night.report["run_id"]
    with open_journal(world.folder / "home") as journal:
        hold(journal, run_id, "claim 7")
    done = purged(world, 5000)
    assert left(night) == PERSONAL
    assert done["held_runs"] == [run_id]
    assert done["journal"]["answers"] == 0
    assert "legal hold" in done["journal"]["waits_for"]
    with open_journal(world.folder / "home") as journal:
        release(journal, run_id)
        with pytest.raises(InputError, match="no legal hold"):
            release(journal, run_id)
        with pytest.raises(InputError, match="no run"):
            hold(journal, "run-0", "claim 8")
    purged(world, 5000)
    assert left(night) == set()


def test_a_run_under_way_is_not_touched(world: World, night: Night) -> None:
    """Neither its folder nor the answers it may have planned with."""
    folder = world.folder / "out" / "run-live"
    folder.mkdir()
    (folder / "quarantine.csv").write_text("customer_id\n", encoding="utf-8")
    with open_journal(world.folder / "home") as other:
        begin_run(other, "run-live", batch="borrowers", folder=str(folder))
        done = purged(world, 5000)
    assert done["live_runs"] == ["run-live"]
    assert (folder / "quarantine.csv").exists()
    assert done["journal"]["answers"] == 0
    assert left(night) == set()


def test_a_purge_cut_short_is_finished_by_the_next(
    world: World, night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files went, the manifest did not tell: the next purge tells it."""

    def crash(self: RunFiles, at: int) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(RunFiles, "finish", crash)
        with pytest.raises(KeyboardInterrupt):
            purged(world, 31)
    assert "quarantine.csv" in night.manifest["files"]
    purged(world, 31)
    assert "quarantine.csv" not in night.manifest["files"]
    assert len(night.manifest["rewritten"]) == 1
