"""Approvals at the desk: what waits, who may decide, the cap, and what follows."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from nightscreen.cli.serve import EngineStarter
from nightscreen.files.private_files import make_private_folder
from nightscreen.ops.vitals import FOLDER
from nightscreen.schemas.api_runs import ApiRunParameters
from nightscreen.schemas.approvals import ApprovalDecision
from nightscreen.schemas.errors import InputError, UsageError
from tests.begun import begin_run
from tests.desk.office import Office, office_over
from tests.operations.bvn_in_a_test import BvnWorld, asked


@pytest.fixture
def office(quoted: Path, tmp_path: Path) -> Iterator[Office]:
    """A desk where one run waits for approval."""
    with office_over(quoted, tmp_path) as office:
        yield office


def test_run_that_waits_is_shown_with_its_quote_and_approved_under_a_lower_cap(
    office: Office,
) -> None:
    """The section is named by the run; the record has who, how much and why; the run resumes.

    Nothing but a lower cap is taken, and what was typed stays; a second approver comes too late.
    """
    run = office.waiting
    browser, late = office.browser("approver", name="Bem"), office.browser("approver")
    assert "Spend up to ₦400" in browser.get("/").text
    page = browser.get("/approvals").text
    assert f'aria-labelledby="r-{run}"' in page
    assert ">Spend up to ₦400</button>" in page
    assert "asked by Ada" in page
    for amount in ("400.01", "-5", "NaN"):
        answer = browser.post(f"/approvals/{run}", do="approve", max_spend=amount, note="my note")
        assert answer.status_code == 400, amount
        assert ">my note</textarea>" in answer.text
    done = browser.post(f"/approvals/{run}", do="approve", max_spend="100", note="half of it")
    assert (done.status_code, done.headers["location"]) == (303, f"/runs/{run}")
    record = office.context.approvals.newest(run)
    assert record is not None
    assert (record.decided_by, record.note) == ("Bem", "half of it")
    assert record.max_spend_micro == 100_000_000
    (started,) = office.starts.started
    assert (started.run, started.max_spend) == (run, "100.00")
    assert "spending approved" in office.actions()
    assert late.post(f"/approvals/{run}", do="refuse").status_code == 409
    assert "No run waits" in browser.get("/approvals").text


def confirmation_that_waits(office: Office) -> tuple[BvnWorld, dict[str, str], str]:
    """Have five BVNs wait to be confirmed; return their world, passwords and run."""
    world = BvnWorld(office.folder, settings={"approval_above": "30"}, clock=office.clock)
    rows = [asked(number) for number in range(1, 6)]
    world.request(rows)
    otps = {row["customer_id"]: world.otp(row) or "" for row in rows}
    return world, otps, world.confirm(otps).report["run_id"]


@pytest.fixture
def started(office: Office, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ApiRunParameters]]:
    """The flows that the desk starts in processes of their own, with their parameters."""
    flows: list[tuple[str, ApiRunParameters]] = []
    monkeypatch.setattr(EngineStarter, "_start", lambda _, *given: flows.append(given))
    office.context.starter = EngineStarter(office.settings)
    return flows


def test_run_of_another_flow_is_approved_and_resumed_here(
    office: Office, started: list[tuple[str, ApiRunParameters]]
) -> None:
    """Its section says what it would cost; its process gets the cap, and keeps the folder.

    Where its file of passwords is gone the page says so; once it is back, the command that was
    named has the approved cap.
    """
    world, otps, run = confirmation_that_waits(office)
    browser, approve = office.browser("approver", name="Bem"), {"do": "approve", "max_spend": "60"}
    assert ">Spend up to ₦100</button>" in browser.get("/approvals").text
    assert browser.post(f"/approvals/{run}", **approve).status_code == 303
    ((flow, parameters),) = started
    assert (flow, parameters.run) == ("people:confirm_bvns", run)
    assert (parameters.max_spend, parameters.output) == ("60.00", str(office.folder / "out"))
    another = world.confirm(otps).report["run_id"]
    passwords = world.folder / "otps.csv"
    passwords.unlink()
    answer = browser.post(f"/approvals/{another}", **approve)
    assert answer.status_code == 400
    assert f"could not be resumed: {passwords}: there is no such file" in answer.text
    assert f"then type: nightscreen bvn confirm --run {another}" in answer.text
    assert len(started) == 1
    report = world.confirm(otps, run=another).report
    assert (report["stop_reason"], report["cost"]["total"]) == ("budget", "60.00")


def test_option_yes_decides_nothing_of_a_run_that_the_desk_was_asked_about(office: Office) -> None:
    """With `--yes` it waits again, and is not resumed once somebody has refused it at the desk."""
    world, otps, run = confirmation_that_waits(office)
    browser = office.browser("approver", name="Bem")
    assert world.confirm(otps, run=run, yes=True).report["stop_reason"] == "approval"
    assert browser.post(f"/approvals/{run}", do="refuse").status_code == 303
    with pytest.raises(InputError, match="was refused by Bem"):
        world.confirm(otps, run=run, yes=True)
    assert world.calls("bvn_finish") == []
    assert world.confirm(otps, yes=True).states == {"confirmed": 5}  # in advance, as a job does


def test_nobody_approves_what_they_asked_for_where_somebody_else_can(office: Office) -> None:
    """Alone Ada may approve her own run; to resume one under a higher cap is to ask as well."""
    run = office.waiting
    ada = office.browser("approver", name="Ada")
    assert ">Spend up to" in ada.get("/approvals").text
    bem, chief = office.browser("approver", name="Bem"), office.browser("approver", name="Chief")
    assert ">Spend up to" not in ada.get("/approvals").text
    assert ada.post(f"/approvals/{run}", do="approve").status_code == 403
    office.context.audit.write("Bem", "run resumed", run_id=run, max_spend="400")
    office.await_approval("root", run=run)
    assert bem.post(f"/approvals/{run}", do="approve").status_code == 403
    assert office.starts.started == []
    assert chief.post(f"/approvals/{run}", do="approve").status_code == 303


def test_run_under_way_shows_its_progress(office: Office) -> None:
    """While it runs the page asks again by itself, and offers to stop it; then says who did."""
    run = office.waiting
    begin_run(office.journal, run, batch="applicants")
    browser = office.browser("analyst", name="Ada")
    page = browser.get(f"/runs/{run}").text
    assert 'hx-trigger="every 2s"' in page
    assert ">Stop</button>" in page
    part = browser.ask("GET", f"/runs/{run}", headers={"hx-request": "true"}).text
    assert part.lstrip().startswith('<section id="live"')
    assert browser.post(f"/runs/{run}/stop").status_code == 303
    assert office.starts.stopped == [run]
    for is_stopped in (True, False):  # resumed by command, then interrupted there
        office.journal.runs.finish(run, state="stopped", stop_reason="cancelled", report={})
        assert ("stopped by Ada" in browser.get("/runs").text) is is_stopped
        assert (">stopped</span> by Ada" in browser.get(f"/runs/{run}").text) is is_stopped
        office.clock.forward(seconds=60)
        begin_run(office.journal, run, batch="applicants")


def test_file_that_waits_in_the_inbox_is_left_to_its_watch(
    office: Office, started: list[tuple[str, ApiRunParameters]]
) -> None:
    """The approval alone is written down: two who resumed the run would meet."""
    run = office.waiting
    file = office.settings.inbox.absolute() / "waiting" / run / "tonight.csv"
    office.journal.runs.moved_input(run, str(file))
    browser = office.browser("approver")
    assert browser.post(f"/approvals/{run}", do="approve").status_code == 303
    record = office.context.approvals.newest(run)
    assert record is not None
    assert record.decision is ApprovalDecision.APPROVED
    assert started == []


def test_only_the_process_of_the_run_itself_is_signalled(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number that the journal knows may be another machine's, or of another process by now."""
    run = office.waiting
    monkeypatch.setattr("os.kill", pytest.fail)
    folder = make_private_folder(office.settings.home / FOLDER)
    for host, pid in (("elsewhere", 1), ("", 1), (socket.gethostname(), 2)):
        (folder / f"{run}.json").write_text(json.dumps({"host": host, "pid": pid}))
        with pytest.raises(UsageError):  # noqa: PT012 - what was not refused is named
            EngineStarter(office.settings).stop(run, 1)
            pytest.fail(f"{(host, pid)} was taken for the process of the run")
