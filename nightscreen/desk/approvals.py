"""Decisions on runs: the page of approvals, and on a run's own page its signature and release.

The decision is the journal's record; an approved run is resumed under its cap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nightscreen.desk.context import DeskError, naira_typed, plain_naira
from nightscreen.desk.runs import find_run, resume_approved
from nightscreen.files.sealed_file import RESUMABLE_DAYS
from nightscreen.policy.declarations import read_declarations
from nightscreen.report.sign_off import sign_report
from nightscreen.results.notice_delivery import confirm_proposals
from nightscreen.runs.approval import decide_spending, is_own_request, resumed
from nightscreen.runs.release import release as release_run
from nightscreen.schemas.approvals import ApprovalDecision
from nightscreen.schemas.clock import DAY_MICROS, deadline_instant
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.money import from_micro, to_micro
from nightscreen.web.forms import onward

if TYPE_CHECKING:
    from starlette.responses import Response

    from nightscreen.desk.context import Context
    from nightscreen.schemas.approvals import Approval


def approvals(context: Context) -> Response:
    """Show every run that waits, oldest first."""
    return context.page(
        "approvals",
        waiting=[_shown(context, each) for each in context.waiting_approvals],
        today=context.journal.money.today(),
        settings=context.settings,
        balance=context.journal.runs.last_balance(),
    )


def _shown(context: Context, approval: Approval) -> dict[str, Any]:
    run = context.journal.runs.find(approval.run_id)
    upload = context.uploads.of_run(run)
    ends = [] if upload is None else [approval.at + RESUMABLE_DAYS * DAY_MICROS]
    if run is not None and run.parameters.get("deadline"):
        ends.append(deadline_instant(str(run.parameters["deadline"]), run.started_at) or 0)
    return {
        "approval": approval,
        "name": upload.name if upload is not None else approval.quote.get("batch", ""),
        "asked_by": upload.user if upload is not None else approval.asked_by,
        "most": from_micro(approval.offered_micro),
        "reused": {
            check: counts["reused"]
            for check, counts in (approval.quote.get("checks") or {}).items()
        },
        "until": min(filter(None, ends), default=None),
        "own": run is not None and is_own_request(context.journal, context.actor, approval, run),
    }


def _waiting(context: Context) -> Approval:
    run_id = context.request.path_params["run_id"]
    found = next((e for e in context.approvals.waiting() if e.run_id == run_id), None)
    if found is None:
        raise DeskError(
            409, "This run does not wait any more: somebody has decided, or it goes on."
        )
    return found


def _amount(text: str, most: int) -> int:
    """Return an amount in micro-naira.

    Raises:
        InputError: it cannot be read, or is more than may be approved.
    """
    if not plain_naira(text):
        return most
    naira = naira_typed(text)
    if not naira:
        raise InputError("Most to spend: write naira such as 50000.")
    if naira > from_micro(most):
        raise InputError("Most to spend may be lowered, not raised above what was asked for.")
    return to_micro(naira)


def decide(context: Context) -> Response:
    """Approve or refuse; an approved run is resumed at once."""
    approval = _waiting(context)
    refused = context.text("do") == "refuse"
    decided = decide_spending(
        context.journal,
        context.actor,
        approval.run_id,
        ApprovalDecision.REFUSED if refused else ApprovalDecision.APPROVED,
        note=context.text("note", 2000),
        max_spend_micro=None
        if refused
        else _amount(context.text("max_spend", 30), approval.offered_micro),
        seen=context.text("seen", 200) or approval.key,
    )
    if refused:
        context.uploads.sweep()
        return onward("/approvals")
    run = find_run(context)
    resume_approved(context, decided, run, resumed(run, decided, context.clock()))
    return onward(f"/runs/{approval.run_id}")


def sign(context: Context) -> Response:
    """Sign a run's report as it stands."""
    found = find_run(context)
    sign_report(context.journal, context.actor, found.run_id, note=context.text("note", 2000))
    return onward(f"/runs/{found.run_id}#sign")


def confirm(context: Context) -> Response:
    """Confirm all that a run proposes to decline; the customers are told of it from then on."""
    found, declared = find_run(context), read_declarations(context.settings)
    note = context.text("note", 2000)
    confirm_proposals(context.journal, context.actor, found.run_id, declared, note=note)
    return onward(f"/runs/{found.run_id}")


def release(context: Context) -> Response:
    """Release a run that was held."""
    found = find_run(context)
    release_run(context.journal, context.actor, found.run_id, context.text("reason", 2000))
    return onward(f"/runs/{found.run_id}")
