"""Approvals at the desk: what waits, who may decide, the cap, and what follows."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from nightscreen.cli.serve import EngineStarter
from nightscreen.config.parameters import ScreenBatch
from nightscreen.files.private_files import make_private_folder
from nightscreen.ops.vitals import FOLDER
from nightscreen.reading.open_file import file_digest
from nightscreen.runs.screening import quote_batch
from nightscreen.schemas.approvals import ApprovalDecision
from nightscreen.schemas.errors import UsageError
from nightscreen.schemas.money import to_micro
from tests.begun import begin_run
from tests.desk.conftest import borrowers
from tests.desk.office import Office
from tests.screening import World

RUN = "20260301-220000-a1b2c3"


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    """A desk where one run waits for approval."""
    with Office(tmp_path) as office:
        path = World(tmp_path).write(borrowers(20))
        parameters = ScreenBatch(
            input=str(path), batch="portfolio", output=str(tmp_path / "out"), max_spend="400"
        )
        quote = quote_batch(parameters, office.settings)
        runs = office.journal.runs
        runs.begin(
            RUN,
            flow="screen_batch",
            batch="portfolio",
            purpose="portfolio",
            input_digest=file_digest(path),
            folder=str(tmp_path / "out" / RUN),
            cap_micro=400_000_000,
            parameters=parameters.model_dump(exclude={"run", "yes", "quote_only"}),
        )
        runs.finish(RUN, state="stopped", stop_reason="approval", report={})
        office.context.approvals.ask(
            RUN,
            asked_by="Ada",
            reason="quoted above what is usual",
            quote=quote,
            ceiling_micro=to_micro(Decimal(quote["quoted"]["high"])),
            cap_micro=400_000_000,
        )
        yield office


def test_run_that_waits_is_shown_with_its_quote_and_approved_under_a_lower_cap(
    office: Office,
) -> None:
    """The section is named by the run; the record has who, how much and why; the run resumes."""
    browser = office.browser("approver", name="Bem")
    assert "Spend up to ₦400" in browser.get("/").text
    page = browser.get("/approvals").text
    assert f'aria-labelledby="r-{RUN}"' in page
    assert ">Spend up to ₦400</button>" in page
    assert "asked by Ada" in page
    done = browser.post(f"/approvals/{RUN}", do="approve", max_spend="100", note="half of it")
    assert (done.status_code, done.headers["location"]) == (303, f"/runs/{RUN}")
    record = office.context.approvals.newest(RUN)
    assert record is not None
    assert (record.decided_by, record.note) == ("Bem", "half of it")
    assert record.max_spend_micro == 100_000_000
    (started,) = office.starts.started
    assert (started.run, started.max_spend) == (RUN, "100.00")
    assert "spending approved" in office.actions()
    assert "No run waits" in browser.get("/approvals").text


@pytest.mark.parametrize("amount", ["400.01", "-5", "NaN"])
def test_cap_may_be_lowered_and_nothing_else(office: Office, amount: str) -> None:
    """What was typed stays, with what is wrong with it; nothing is decided."""
    browser = office.browser("approver")
    answer = browser.post(f"/approvals/{RUN}", do="approve", max_spend=amount, note="my note")
    assert answer.status_code == 400
    assert ">my note</textarea>" in answer.text
    assert office.starts.started == []


def test_nobody_approves_what_they_asked_for_where_somebody_else_can(office: Office) -> None:
    """Alone Ada may approve her own run; with a second approver she may not."""
    ada = office.browser("approver", name="Ada")
    assert ">Spend up to" in ada.get("/approvals").text
    office.browser("approver", name="Bem")
    assert ">Spend up to" not in ada.get("/approvals").text
    assert ada.post(f"/approvals/{RUN}", do="approve").status_code == 403
    assert office.starts.started == []


def test_request_decided_meanwhile_is_not_decided_twice(office: Office) -> None:
    """The second of two approvers is told that it does not wait any more."""
    first, second = office.browser("approver"), office.browser("approver", name="Bem")
    assert first.post(f"/approvals/{RUN}", do="refuse").status_code == 303
    assert second.post(f"/approvals/{RUN}", do="approve").status_code == 409
    assert office.starts.started == []


def test_run_under_way_shows_its_progress(office: Office) -> None:
    """While it runs the page asks again by itself, and offers to stop it; then says who did."""
    begin_run(office.journal, RUN, batch="portfolio")
    browser = office.browser("analyst", name="Ada")
    page = browser.get(f"/runs/{RUN}").text
    assert 'hx-trigger="every 2s"' in page
    assert ">Stop</button>" in page
    part = browser.ask("GET", f"/runs/{RUN}", headers={"hx-request": "true"}).text
    assert part.lstrip().startswith('<section id="live"')
    assert browser.post(f"/runs/{RUN}/stop").status_code == 303
    assert office.starts.stopped == [RUN]
    for is_stopped in (True, False):  # resumed by command, then interrupted there
        office.journal.runs.finish(RUN, state="stopped", stop_reason="cancelled", report={})
        assert ("stopped by Ada" in browser.get("/runs").text) is is_stopped
        assert (">stopped</span> by Ada" in browser.get(f"/runs/{RUN}").text) is is_stopped
        office.clock.forward(seconds=60)
        begin_run(office.journal, RUN, batch="portfolio")


def test_whoever_resumed_a_run_does_not_approve_it(office: Office) -> None:
    """To resume under a higher cap is to ask; somebody else approves."""
    bem, chief = office.browser("approver", name="Bem"), office.browser("approver", name="Chief")
    office.context.audit.write("Bem", "run resumed", run_id=RUN, max_spend="400")
    waiting = office.context.approvals.newest(RUN)
    assert waiting is not None
    office.context.approvals.ask(
        RUN,
        asked_by="root",
        reason=waiting.reason,
        quote=waiting.quote,
        ceiling_micro=waiting.ceiling_micro,
        cap_micro=waiting.cap_micro,
    )
    assert bem.post(f"/approvals/{RUN}", do="approve").status_code == 403
    assert chief.post(f"/approvals/{RUN}", do="approve").status_code == 303


def test_file_that_waits_in_the_inbox_is_left_to_its_watch(office: Office) -> None:
    """The approval alone is written down: two who resumed the run would meet."""
    file = office.settings.inbox.absolute() / "waiting" / RUN / "tonight.csv"
    office.journal.runs.moved_input(RUN, str(file))
    browser = office.browser("approver")
    assert browser.post(f"/approvals/{RUN}", do="approve").status_code == 303
    record = office.context.approvals.newest(RUN)
    assert record is not None
    assert record.decision is ApprovalDecision.APPROVED
    assert office.starts.started == []


@pytest.mark.parametrize(("host", "pid"), [("elsewhere", 1), ("", 1), (socket.gethostname(), 2)])
def test_only_the_process_of_the_run_itself_is_signalled(
    office: Office, monkeypatch: pytest.MonkeyPatch, host: str, pid: int
) -> None:
    """A number that the journal knows may be another machine's, or of another process by now."""
    monkeypatch.setattr("os.kill", pytest.fail)
    folder = make_private_folder(office.settings.home / FOLDER)
    (folder / f"{RUN}.json").write_text(json.dumps({"host": host, "pid": pid}))
    with pytest.raises(UsageError):
        EngineStarter(office.settings).stop(RUN, 1)
