"""The doctor tells the truth: which run matters, what its cause needs, whether to begin."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import update

from nightscreen.cli.doctor import lines_of
from nightscreen.schemas.errors import JournalError
from nightscreen.schemas.settings import read_settings
from nightscreen.steps.ops import health_checks
from nightscreen.steps.ops.diagnostics import Diagnosis, diagnose
from nightscreen.steps.ops.health_checks import SCHEDULE, WARNING, HealthFinding, journal_trouble
from nightscreen.steps.ops.suggestions import Remedy
from nightscreen.storage.journal import open_journal
from nightscreen.storage.journal.engine import writing
from nightscreen.storage.journal.tables import meta

if TYPE_CHECKING:
    from pathlib import Path

    from nightscreen.storage.journal import Journal

DAY = 86_400_000_000


def examined(home: Path, way: str | None = None, **more: Any) -> Diagnosis:  # noqa: ANN401 - settings of any kind
    """Ask the doctor, who finds this in the way to the service."""
    given = {"base_url": "https://service.example", "api_key": "made-up"}
    after = more.pop("more", ())
    return diagnose(
        read_settings(home=home, **{**given, **more}),
        reaching=lambda _: way,
        knocking=lambda *_: None,
        more=after,
    )


def ended(
    journal: Journal,
    run_id: str,
    *,
    flow: str = "screen_batch",
    batch: str = "portfolio",
    stop: str | None = None,
) -> None:
    """Keep a run that has completed, or stopped for a reason."""
    journal.runs.begin(
        run_id,
        flow=flow,
        batch=batch,
        purpose="portfolio",
        input_digest="d",
        folder=str(journal.home / "out" / run_id),
        cap_micro=None,
        parameters={},
    )
    state = "completed" if stop is None else "stopped"
    journal.runs.finish(run_id, state=state, stop_reason=stop, report={})


def test_a_later_run_of_another_kind_does_not_hide_a_stopped_night(tmp_path: Path) -> None:
    """A nightly stopped by its budget, then one BVN request that went well: the night is told."""
    with open_journal(tmp_path) as journal:
        ended(journal, "night", stop="budget")
        ended(journal, "request", flow="request_bvns", batch="applicants")
    found = examined(tmp_path)
    assert found.run is not None
    assert found.run["run_id"] == "night"
    assert [run["run_id"] for run in found.others] == ["request"]
    assert found.exit_status == 3
    told = "\n".join(lines_of(found))
    assert "also           run request of applicants (request bvns): completed" in told
    assert "all is well" not in told


def test_a_night_that_was_made_good_is_over(tmp_path: Path) -> None:
    """Only the newest run of a flow and batch counts; of what nobody runs any more, none."""
    now = [10 * 365 * DAY]
    with open_journal(tmp_path, clock=lambda: now[0]) as journal:
        ended(journal, "long-ago", batch="one-off", stop="outage")
        now[0] += 30 * DAY
        ended(journal, "first", stop="outage")
        now[0] += DAY
        ended(journal, "second")
    found = diagnose(
        read_settings(home=tmp_path, base_url="https://service.example", api_key="made-up"),
        clock=lambda: now[0],
        reaching=lambda _: None,
        knocking=lambda *_: None,
    )
    assert found.run is not None
    assert found.run["run_id"] == "second"
    assert found.others == []
    assert (found.exit_status, found.remedy) == (0, None)


def test_the_worst_of_several_gives_the_status(tmp_path: Path) -> None:
    """Test mode after a plain stop is said first; among equals the newest is."""
    with open_journal(tmp_path) as journal:
        ended(journal, "older", batch="a", stop="deadline")
        ended(journal, "newer", batch="b", stop="deadline")
    assert (examined(tmp_path).run or {})["run_id"] == "newer"


@pytest.mark.parametrize(
    ("way", "first", "status"),
    [
        ("x:443 shows a certificate that is not trusted (self-signed)", "NIGHTSCREEN_CA_FILE", 2),
        ("the name of x:443 cannot be resolved", "correct the host in NIGHTSCREEN_BASE_URL", 2),
        ("the proxy http://p:1 does not lead to x:443 (407)", "correct NIGHTSCREEN_PROXY", 2),
        ("x:443 does not answer within 5 s", "wait until the service answers again", 3),
    ],
)
def test_an_outage_is_mended_by_its_cause(
    tmp_path: Path, way: str, first: str, status: int
) -> None:
    """A certificate or a name stays wrong however long one waits: then no run can begin."""
    with open_journal(tmp_path) as journal:
        ended(journal, "night", stop="outage")
    found = examined(tmp_path, way)
    assert found.remedy is not None
    assert first in found.remedy.first
    assert found.exit_status == status
    assert found.safe is (status != 2)
    assert ("no run can begin: service" in (found.why_not or "")) is (status == 2)


def test_a_newer_schema_asks_for_the_newer_program(tmp_path: Path) -> None:
    """The journal is well; this program is too old for it."""
    with open_journal(tmp_path) as journal:
        ended(journal, "night")
        with writing(journal.engine) as connection:
            values = update(meta).where(meta.c.name == "schema_version").values(value="999")
            connection.execute(values)
    found = examined(tmp_path)
    assert found.remedy is not None
    assert found.remedy.first.startswith("install the version of nightscreen that wrote it")
    assert (found.exit_status, found.safe) == (2, False)


def test_a_database_that_is_down_is_to_be_started(tmp_path: Path) -> None:
    """Nothing of the journal is to be mended."""
    found = examined(tmp_path, journal_url="postgresql+psycopg://u:p@127.0.0.1:9/x")
    assert found.remedy is not None
    assert found.remedy.first.startswith("start the journal's database")
    assert (found.exit_status, found.safe) == (2, False)


def test_a_full_disk_is_to_be_freed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the full disk has made of the journal's access goes with it."""
    monkeypatch.setattr(health_checks, "free_bytes", lambda _: 1_000)
    error = JournalError(f"the journal cannot be written: {errno.errorcode[errno.ENOSPC]}")
    finding = journal_trouble(read_settings(home=tmp_path), error)
    assert finding.remedy is not None
    assert finding.remedy.first.startswith("free some disk under")


def test_a_deployment_whose_newest_run_is_late_is_not_well(tmp_path: Path) -> None:
    """A run that never began is in no journal: what the engine knows of it counts as well."""
    with open_journal(tmp_path) as journal:
        ended(journal, "night")
    late = HealthFinding(
        SCHEDULE,
        WARNING,
        "the newest run of nightly has not started",
        Remedy("", "prefect worker start --pool nightscreen"),
    )
    found = examined(tmp_path, more=(late,))
    assert found.exit_status == 3
    assert found.remedy == late.remedy
    assert found.safe
