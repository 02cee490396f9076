"""A run that needs approval: it ends after its quote, and a record decides what becomes of it."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from nightscreen.journal import open_journal
from nightscreen.journal.actor import Actor
from nightscreen.journal.approvals import Approvals
from nightscreen.runs.approval import resumed
from nightscreen.schemas.approvals import Approval, ApprovalDecision
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.money import to_micro
from tests.begun import begin_run
from tests.money.service_in_memory import Bureau
from tests.ops.walk import ask_doctor

ABOVE = {"approval_above": "100"}
ROWS = 10


@pytest.fixture
def bureau(tmp_path: Path) -> Bureau:
    """A lender whose runs need approval from a hundred naira."""
    return Bureau(tmp_path, rows=ROWS, settings=dict(ABOVE))


def decide(bureau: Bureau, run_id: str, decision: ApprovalDecision, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """Write a decision down as an approver does; return the parameters that resume the run."""
    with open_journal(bureau.folder / "home", clock=bureau.loop.micros) as journal:
        found = Approvals(journal).decide(Actor("chief"), run_id, decision, **more)
        run = journal.runs.find(run_id)
        assert run is not None
        return resumed(run, found, bureau.loop.micros())


def records(bureau: Bureau, run_id: str) -> list[Approval]:
    with open_journal(bureau.folder / "home") as journal:
        return Approvals(journal).of_run(run_id)


def test_a_dear_run_ends_after_its_quote_and_holds_nothing(bureau: Bureau) -> None:
    """Not one call, a whole folder, no process, no lock; the request shows the quote.

    Waiting, refused, approved and void each have their words and their command at the doctor's. A
    resume says who refused and what to type. An approval nobody used in time is void: the resume
    asks again, and the report says why.
    """
    driven = bureau.night()
    report, run_id = driven.report, driven.report["run_id"]
    assert (report["state"], report["stop_reason"]) == ("stopped", "approval")
    assert report["cost"]["total"] == "0.00"
    assert (driven.folder / "manifest.json").exists()
    (asked,) = records(bureau, run_id)
    assert asked.quote["quoted"] == report["cost"]["quoted"]
    assert asked.ceiling_micro == to_micro(Decimal(report["cost"]["quoted"]["high"]))
    assert asked.decision is None
    found = ask_doctor(bureau)
    assert found.safe
    assert found.run is not None
    assert found.run["pid"] is None
    approve = f"nightscreen approve {run_id}"

    def said(state: str, command: str = approve) -> None:
        found = ask_doctor(bureau)
        assert found.run is not None
        assert found.run["approval"]["state"] == state
        assert found.remedy is not None
        assert (found.remedy.command, found.exit_status) == (command, 3)
        assert bureau.service.ledger == []

    said("waiting")
    decide(bureau, run_id, ApprovalDecision.REFUSED, note="the wrong extract")
    for is_yes in (False, True):
        with pytest.raises(InputError, match=f"refused by chief .* {approve}"):
            bureau.night(run=run_id, yes=is_yes)
    said("refused")
    given = decide(bureau, run_id, ApprovalDecision.APPROVED)
    said("approved", f"nightscreen screen --run {run_id}")
    bureau.loop.now_s += timedelta(hours=2, seconds=1).total_seconds()
    said("void")
    report = bureau.night(**given).report
    assert report["stop_reason"] == "approval"
    assert any("is void" in notice for notice in report["notices"])
    said("waiting")


@pytest.mark.parametrize(
    ("flow", "end"), [("confirm_bvns", "completed"), ("screen_batch", "stopped")]
)
def test_a_night_is_compared_with_screenings_only(tmp_path: Path, flow: str, end: str) -> None:
    """Three cheap runs of another flow, such as BVN confirmations, do not make a night dear."""
    bureau = Bureau(tmp_path, rows=ROWS)
    with open_journal(bureau.folder / "home", clock=bureau.loop.micros) as journal:
        for run_id in ("one", "two", "three"):
            begin_run(journal, run_id, flow=flow, batch="in")
            cheap = {"cost": {"total": "20.00"}, "publishable": False}
            journal.runs.finish(run_id, state="completed", stop_reason=None, report=cheap)
    assert bureau.night(batch="in").report["state"] == end


def test_more_than_was_approved_must_be_approved(bureau: Bureau) -> None:
    """A resume with a higher cap asks again instead of passing what was approved.

    A run that was cut short goes on under its approval: hours later nobody is asked again, and the
    cap holds for the run as a whole.
    """
    run_id = bureau.night().report["run_id"]
    decide(bureau, run_id, ApprovalDecision.APPROVED, max_spend_micro=to_micro(Decimal(100)))
    bureau.night(run=run_id)
    spent = bureau.service.charged
    report = bureau.night(run=run_id, max_spend="9000").report
    assert report["stop_reason"] == "approval"
    assert bureau.service.charged == spent
    given = decide(bureau, run_id, ApprovalDecision.APPROVED)
    assert given["max_spend"] == "340.00", "the most of its quote, less than asked for"
    bureau.service.wallet = 50
    assert bureau.night(**given).report["stop_reason"] == "balance"
    bureau.service.wallet = 1_000_000
    bureau.loop.now_s += timedelta(hours=9).total_seconds()
    report = bureau.night(run=run_id).report
    assert (report["run_id"], report["state"]) == (run_id, "completed")
    assert report["cost"]["cap"] == "340.00"
    assert spent < bureau.service.charged == Decimal(report["cost"]["total"])


def test_a_yes_at_the_terminal_is_recorded_and_caps_the_run(bureau: Bureau) -> None:
    """The person sees what is asked; the run goes on at once and is held to what was shown."""
    seen: list[Approval] = []

    def yes(asked: Approval) -> bool:
        seen.append(asked)
        return True

    report = bureau.night(ask_here=yes).report
    (shown,), (record,) = seen, records(bureau, report["run_id"])
    assert report["state"] == "completed"
    assert record.decision is ApprovalDecision.APPROVED
    assert record.max_spend_micro == shown.ceiling_micro
    assert to_micro(Decimal(report["cost"]["cap"])) == shown.ceiling_micro
