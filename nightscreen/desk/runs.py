"""The pages of runs: the list, one run live, its report and files; stopping, resuming, approving.

The journal records decisions on a run's spending; an approved run is resumed under its cap.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import FileResponse, Response

from nightscreen.config.declarations import read_declarations
from nightscreen.config.parameters import SCREEN_FLOW, ScreenBatch
from nightscreen.desk.context import DeskError, plain_naira
from nightscreen.desk.pages import REPORT_POLICY
from nightscreen.desk.rows import Filter, rows_of_run
from nightscreen.files.outputs import REPORT_PAGE, Output, declaration_of
from nightscreen.files.person import same_person
from nightscreen.files.sealed_file import RESUMABLE_DAYS
from nightscreen.journal.audit import RUN_RESUMED, RUN_STOPPED
from nightscreen.journal.holders import pid_of
from nightscreen.journal.records import Records
from nightscreen.journal.runs import KILLED, RUNNING
from nightscreen.ops.status import HUNG, condition_of, deadline_words, ending, standing_of
from nightscreen.results.notices import confirm_proposals
from nightscreen.runs.approval import resumed, waits_in_inbox
from nightscreen.runs.release import release as release_run
from nightscreen.schemas.approvals import ApprovalDecision, ApprovalState
from nightscreen.schemas.clock import DAY_MICROS, deadline_instant
from nightscreen.schemas.contests import Confirmation, Signature
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.money import from_micro, typed_micro
from nightscreen.schemas.stops import StopReason
from nightscreen.schemas.uploads import RowToCorrect
from nightscreen.web.guard import see_other

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nightscreen.desk.context import Context
    from nightscreen.journal.runs import RunRecord
    from nightscreen.schemas.approvals import Approval

SHOWN: Final = 50  # runs on a page: bounds reports and files read for it
WAITS: Final = "waiting"  # state of a run that waits: for approval, or for what passes by itself


def find_run(context: Context) -> RunRecord:
    """Return the run that the address names."""
    run = context.journal.runs.find(context.request.path_params["run_id"])
    if run is None:
        raise DeskError(404, "There is no run of this id. See all of them under Runs.")
    return run


def runs(context: Context) -> Response:
    """List runs, newest first."""
    heads = context.journal.runs.heads()
    start, where = context.slice(len(heads), SHOWN)
    found = context.journal.runs.find_all(heads[start : start + SHOWN])
    return context.page("runs", runs=standings(context, found), where=where)


@dataclass(frozen=True, slots=True)
class Standing:
    """How a run stands in a list."""

    run: RunRecord
    state: str  # `WAITS` where it waits for approval, or for what passes by itself
    words: str  # the same, and how it ended, in a few words
    next_at: int | None = None  # when it is tried again by itself; None where it is not

    @property
    def has_rows(self) -> bool:
        """Return whether its night is one of the batch: a run that waits for approval has none."""
        is_asked = self.run.stop_reason == StopReason.APPROVAL
        return bool((self.run.report or {}).get("rows")) and not is_asked

    @property
    def is_resting(self) -> bool:
        """Return whether something must happen before it goes on, other than an approval."""
        is_asked = self.run.stop_reason == StopReason.APPROVAL
        return self.state in {WAITS, "stopped", KILLED, HUNG} and not is_asked


def standings(context: Context, found: Sequence[RunRecord]) -> list[Standing]:
    """Return how runs stand."""
    standing = []
    asked = [run.run_id for run in found if run.stop_reason == StopReason.APPROVAL]
    newest = context.approvals.newest_of(asked)
    for run in found:
        approval = newest.get(run.run_id)
        facts = standing_of(run, context.settings, context.journal, context.clock(), approval)
        state, words, next_at = facts["state"], ending(facts), None
        if facts["approval"] is not None and facts["approval"]["state"] == ApprovalState.WAITING:
            state, words = WAITS, "waits for approval"
        elif state == RUNNING and facts["waiting_for"]:
            state, words = WAITS, f"waits for {facts['waiting_for'].replace('_', ' ')}"
            next_at = facts["next_try_at"]
        standing.append(Standing(run, state, words, next_at))
    return standing


def run(context: Context) -> Response:
    """Show one run: live while it goes on, with report and files once it has ended."""
    found = find_run(context)
    facts = condition_of(found, context.settings, context.journal, context.clock)
    follows = context.request.headers.get("hx-request") == "true"
    starting = context.asked_first("resumed") == str(found.finished_at)
    approval = (facts["approval"] or {}).get("state", "")
    stands = f"{facts['state']} {approval}".strip()
    is_moving = facts["state"] == RUNNING or starting or approval == ApprovalState.APPROVED
    files = files_of(found)
    response = context.page(
        "run_live" if follows else "run",
        stands=stands,
        # after how many seconds the page looks again by itself; 0 where nothing is to come
        every_s=2 if is_moving else 10 if approval == ApprovalState.WAITING else 0,
        run=found,
        facts=facts,
        starting=starting,
        deadline=deadline_words(facts),
        ending=ending(facts),
        files=files,
        to_correct=Records(context.journal, RowToCorrect).number_of_run(found.run_id),
        open_files={
            name
            for name, declared in files.items()
            if context.may(declared.right) and not (declared.of_branches and context.branches)
        },
        waits=context.approvals.newest(found.run_id),
        confirmed=Records(context.journal, Confirmation).of_run(found.run_id),
        signed=signatures_of(context, found),
        may_resume=may_resume(context, found),
    )
    if follows and context.asked("stands") != [stands]:
        response.headers["hx-refresh"] = "true"  # its buttons, files and report change as well
    return response


def files_of(run: RunRecord) -> dict[str, Output]:
    """Return a run's files by name, as far as they are on this machine, and what each is.

    Undeclared files are given only to those who may get unsealed rows.
    """
    folder = Path(run.folder)
    found = (file.relative_to(folder) for file in folder.rglob("*") if file.is_file())
    shown = (each for each in found if not any(part.startswith(".") for part in each.parts))
    names = sorted(each.as_posix() for each in shown)
    return {name: declaration_of(name) or Output(name) for name in names}


def file(context: Context) -> Response:
    """Return one file of a run; files with identifiers only to those who may take data out."""
    found, name = find_run(context), context.request.path_params["name"]
    declared = files_of(found).get(name)
    if declared is None:
        raise DeskError(404, "This run has no such file.")
    context.require(declared.right)
    if declared.of_branches:
        context.require_branch()
    context.record("file exported", run_id=found.run_id, file=name)
    path = Path(found.folder) / name
    return FileResponse(path, filename=f"{found.run_id}-{path.name}")


def report(context: Context) -> Response:
    """Return a run's report as it is shown inside its page."""
    # first of all, so that who may not see reports is not told which runs have one
    context.require((declaration_of(REPORT_PAGE) or Output(REPORT_PAGE)).right)
    found = find_run(context)
    files = files_of(found)
    if REPORT_PAGE not in files:
        raise DeskError(404, "This run has no report yet.")
    page = (Path(found.folder) / REPORT_PAGE).read_bytes()
    for name in [*files, "./"]:  # beside the report there; here each has its address
        at = f"/runs/{found.run_id}" + (f"/files/{name}" if name != "./" else "#files")
        page = re.sub(
            rb'href="%s(#[^"]*)?"' % re.escape(name).encode(),
            f'href="{at}" target="_blank" rel="noopener"'.encode(),
            page,
        )
    page = page.replace(b'data-at-desk="', b'target="_blank" rel="noopener" href="')
    return Response(
        page,
        media_type="text/html; charset=utf-8",
        headers={"content-security-policy": REPORT_POLICY, "x-frame-options": "SAMEORIGIN"},
    )


def stop(context: Context) -> Response:
    """Ask a run to stop in good order."""
    found = find_run(context)
    if found.state != RUNNING:
        raise DeskError(409, "This run is not under way; there is nothing to stop.")
    pid = None if found.holder is None else pid_of(found.holder)
    context.starter.stop(found.run_id, pid)
    context.record(RUN_STOPPED, run_id=found.run_id)
    return see_other(f"/runs/{found.run_id}")


def resume(context: Context) -> Response:
    """Resume a run that was stopped or killed, under another cap where one is given."""
    found = find_run(context)
    if not _of_own_branches(context, found):
        context.require_branch()
    if found.flow != SCREEN_FLOW:
        raise DeskError(409, "Only screenings are resumed here; the others by their command.")
    if found.state not in {"stopped", KILLED}:
        raise DeskError(409, "This run is not one that can be resumed.")
    if found.run_id in {each.run_id for each in context.waiting_approvals}:
        raise DeskError(409, "This run waits for approval; it goes on once it is approved.")
    given: dict[str, Any] = {"run": found.run_id}
    cap = plain_naira(context.text("max_spend", 20))
    if cap:
        given["max_spend"] = cap
    try:
        parameters = ScreenBatch.model_validate(given)
    except ValueError:
        raise DeskError(400, "Write the most to spend in naira, such as 250000.") from None
    approval = context.approvals.newest(found.run_id)
    if approval is None:
        context.starter.start(parameters)
    elif waits_in_inbox(found, context.settings):
        raise DeskError(409, "The file of this run waits in the inbox, whose watch resumes it.")
    else:
        context.starter.resume(approval, parameters, waits_in_inbox=False)
    context.record(RUN_RESUMED, run_id=found.run_id, max_spend=cap)
    return see_other(f"/runs/{found.run_id}?resumed={found.finished_at}")


def may_resume(context: Context, run: RunRecord) -> bool:
    """Return whether the user may have a run that was stopped or killed go on."""
    is_ended = run.flow == SCREEN_FLOW and run.state in {"stopped", KILLED}
    return is_ended and context.may("screen") and _of_own_branches(context, run)


def _of_own_branches(context: Context, run: RunRecord) -> bool:
    """Return whether every customer of a run is of a branch that the user sees.

    Where a run left no rows, it is the user's own who brought its file.
    """
    if not context.branches:
        return True
    rows = rows_of_run(run)
    if rows is None:
        upload = context.uploads.of_run(run)
        return upload is not None and same_person(upload.user, context.name)
    number, _ = rows.counted(Filter())
    return number > 0 and rows.within(context.branches).counted(Filter())[0] == number


# --- what people decide of runs ---


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
        "own": run is not None and context.approvals.is_own(context.actor, approval, run),
    }


def decide(context: Context) -> Response:
    """Approve or refuse; an approved run is resumed at once."""
    run_id = context.request.path_params["run_id"]
    approval = next((each for each in context.waiting_approvals if each.run_id == run_id), None)
    if approval is None:
        raise DeskError(
            409, "This run does not wait any more: somebody has decided, or it goes on."
        )
    refused, most = context.text("do") == "refuse", approval.offered_micro
    if not refused and plain_naira(context.text("max_spend", 30)):
        try:
            most = typed_micro(context.text("max_spend", 30))
        except ValueError:
            most = 0
        if not most:
            raise InputError("Most to spend: write naira such as 50000.")
        if most > approval.offered_micro:
            raise InputError("Most to spend may be lowered, not raised above what was asked for.")
    decided = context.approvals.decide(
        context.actor,
        run_id,
        ApprovalDecision.REFUSED if refused else ApprovalDecision.APPROVED,
        note=context.text("note", 2000),
        max_spend_micro=None if refused else most,
        seen=context.text("seen", 200) or approval.key,
    )
    if refused:
        context.uploads.sweep()
        return see_other("/approvals")
    run = find_run(context)
    parameters = resumed(run, decided, context.clock())
    waits = waits_in_inbox(run, context.settings)
    context.starter.resume(decided, parameters, waits_in_inbox=waits)
    return see_other(f"/runs/{run_id}")


def sign(context: Context) -> Response:
    """Sign a run's report as it stands."""
    found = find_run(context)
    if found.report is None:
        raise InputError("This run has no report yet; it can be signed once it has ended.")
    earlier = signatures_of(context, found)
    if any(is_current and same_person(each.by, context.name) for each, is_current in earlier):
        raise InputError("You have signed this report.")
    made = Signature(
        key=f"{found.run_id}:{context.clock()}",
        batch=found.batch,
        run_id=found.run_id,
        at=context.clock(),
        by=context.name,
        note=context.text("note", 2000),
        report=_digest(found),
    )
    Records(context.journal, Signature).add([made])
    context.record("report signed", run_id=found.run_id, report=made.report)
    return see_other(f"/runs/{found.run_id}#sign")


def signatures_of(context: Context, run: RunRecord) -> list[tuple[Signature, bool]]:
    """Return who signed a run's report, oldest first; and whether it is still the one they read."""
    found = Records(context.journal, Signature).of_run(run.run_id)
    now = _digest(run) if found else ""
    return [(each, each.report == now) for each in found]


def _digest(run: RunRecord) -> str:
    """Return the SHA-256 of a report, whatever the order of its fields."""
    return hashlib.sha256(json.dumps(run.report, sort_keys=True).encode()).hexdigest()


def confirm(context: Context) -> Response:
    """Confirm all that a run proposes to decline; the customers are told of it from then on."""
    found, declared = find_run(context), read_declarations(context.settings)
    note = context.text("note", 2000)
    confirm_proposals(context.journal, context.actor, found.run_id, declared, note=note)
    return see_other(f"/runs/{found.run_id}")


def release(context: Context) -> Response:
    """Release a run that was held."""
    found = find_run(context)
    release_run(context.journal, context.actor, found.run_id, context.text("reason", 2000))
    return see_other(f"/runs/{found.run_id}")
