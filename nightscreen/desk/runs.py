"""The pages of runs: the front page, the list, one run live, its report and files, approvals.

What waits is read from the open cases, the journal and the runs that wait; a run's report is read
only for how its night went. The journal records decisions on a run's spending; an approved run is
resumed under its cap.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import FileResponse, Response

from nightscreen.config.declarations import read_declarations
from nightscreen.config.parameters import SCREEN_FLOW
from nightscreen.desk import fix, lists, policy
from nightscreen.desk.context import DeskError, plain_naira
from nightscreen.desk.pages import REPORT_POLICY
from nightscreen.desk.rows import rows_of_run
from nightscreen.desk.uploads import screen_parameters
from nightscreen.files.outputs import REPORT_PAGE, Output, declaration_of
from nightscreen.files.sealed_file import RESUMABLE_DAYS
from nightscreen.journal.audit import RUN_RESUMED, RUN_STOPPED, same_person
from nightscreen.journal.holders import pid_of
from nightscreen.journal.records import Records
from nightscreen.journal.runs import KILLED, RUNNING
from nightscreen.journal.settling import open_gaps
from nightscreen.ops.status import (
    HUNG,
    condition_of,
    deadline_words,
    ending,
    not_resumed,
    standing_of,
)
from nightscreen.results.notices import confirm_proposals
from nightscreen.runs.approval import resumed, waits_in_inbox
from nightscreen.runs.open_cases import release as release_run
from nightscreen.schemas.approvals import ApprovalDecision, ApprovalState
from nightscreen.schemas.clock import DAY_MICROS, deadline_instant, spending_day
from nightscreen.schemas.contests import Confirmation, Signature
from nightscreen.schemas.errors import InputError, NightscreenError, UsageError
from nightscreen.schemas.money import from_micro, typed_micro
from nightscreen.schemas.stops import StopReason
from nightscreen.schemas.uploads import RowToCorrect
from nightscreen.web.guard import see_other

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nightscreen.desk.context import Context
    from nightscreen.journal.runs import RunRecord
    from nightscreen.schemas.approvals import Approval

SHOWN: Final = 50  # runs on a page: bounds reports and files read for it
WAITS: Final = "waiting"  # state of a run that waits: for approval, or for what passes by itself
NIGHTS: Final = 14  # two weeks, so that each day of the week counts twice
_LOOKED_AT: Final = 200  # newest runs: a batch without one among them is not shown
_BATCHES: Final = 12  # a choice: how each stands is worked out when the page is opened


# --- the front page ---


def tonight(context: Context) -> Response:
    """Show what waits and how things stand."""
    runs = [run for run in context.journal.runs.newest(limit=_LOOKED_AT) if run.flow == SCREEN_FLOW]
    newest: dict[str, RunRecord] = {}
    for run in runs:
        if run.batch not in newest and not context.uploads.is_part(run):
            newest[run.batch] = run
    may, batches = context.may, standings(context, list(newest.values())[:_BATCHES])
    # a run that waits for approval asked nothing: it is no night of its batch
    nights = [each for each in batches if each["run"].stop_reason != StopReason.APPROVAL]
    ended = [
        each
        for each in nights
        if each["run"].finished_at and (each["run"].report or {}).get("rows")
    ]
    spend: dict[str, int] = defaultdict(int)  # by day, the newest first
    for day, _, each in context.journal.money.by_day() if may("money") else []:
        spend[day] += each.spent_micro
    costs = [micro for micro in list(spend.values())[:NIGHTS] if micro]
    money = context.money_facts()
    balance = money["balance"]
    lasts = None if balance is None or not costs else balance * len(costs) // sum(costs)
    return context.page(
        "tonight",
        **money,
        last=ended[0] if ended else None,
        batches=batches,
        waiting=_waiting(context) if may("approvals") else [],
        # what must happen before a run goes on, other than an approval
        resting=[
            (each, may_resume(context, each["run"]))
            for each in nights
            if may("runs") and each["state"] in {WAITS, "stopped", KILLED, HUNG}
        ],
        lists=context.open_cases.to_review() if may("people") else [],
        overrides=len(context.proposals()),
        to_fix=[
            (each["run"], which, left)
            for each in ended
            for which in (fix.REFUSED, fix.VALUES)
            if may("screen")
            and not context.branches
            and (left := fix.Sheet(context, each["run"], which).number_open)
        ],
        nights_left=lasts,  # at what the last nights cost; None where it is unknown
        missing=open_gaps(context.journal) if may("money") else [],
        contests=lists.waiting_contests(context),
        proposals=policy.waiting(context),
        to_confirm=[] if context.user is None else context.accounts.unconfirmed(context.user),
        made_alone=context.accounts.made_alone(),
        nights=_nights([] if context.branches else runs, spend),
    )


def _nights(runs: Sequence[RunRecord], spend: Mapping[str, int]) -> dict[str, list[float]]:
    """Return the last nights' spend, coverage and declines, the oldest first."""
    sums: dict[str, list[Decimal]] = defaultdict(lambda: [Decimal(0)] * 4)
    for run in runs:
        day = spending_day(run.started_at)
        if len(sums) == NIGHTS and day not in sums:
            break  # each report takes some milliseconds to read
        report = run.report or {}
        decided, exposure = report.get("decisions") or {}, report.get("exposure") or {}
        if run.finished_at is None or not decided or run.stop_reason == StopReason.APPROVAL:
            continue  # nothing was asked: it is no night of its day
        whole = Decimal(exposure.get("total") or 0)
        missed = Decimal((exposure.get("not_screened") or {}).get("exposure") or 0)
        found = (whole - missed, whole, decided.get("decline", 0), sum(decided.values()))
        sums[day] = [one + more for one, more in zip(sums[day], found, strict=True)]
    nights = {
        "Spend": {day: from_micro(micro) for day, micro in spend.items()},
        "Answered, % of exposure": {day: 100 * s[0] / (s[1] or 1) for day, s in sums.items()},
        "Declined, % of customers": {day: 100 * s[2] / (s[3] or 1) for day, s in sums.items()},
    }
    return {
        name: [float(values[day]) for day in sorted(values)[-NIGHTS:]]
        for name, values in nights.items()
        if values
    }


# --- how runs stand ---


def runs(context: Context) -> Response:
    """List runs, newest first."""
    heads = context.journal.runs.heads()
    start, where = context.slice(len(heads), SHOWN)
    found = context.journal.runs.find_all(heads[start : start + SHOWN])
    return context.page("runs", runs=standings(context, found), where=where)


def standings(context: Context, found: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """Return how runs stand in a list.

    Each has its `run`, its `state` (`WAITS` where it waits for approval, or for what passes by
    itself), the same in a few `words`, and when it is tried again by itself (`next_at`), if it is.
    """
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
        standing.append({"run": run, "state": state, "words": words, "next_at": next_at})
    return standing


def run(context: Context) -> Response:
    """Show one run: live while it goes on, with report and files once it has ended."""
    found = context.run
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
    found, name = context.run, context.request.path_params["name"]
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
    found = context.run
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
    found = context.run
    if found.state != RUNNING:
        raise DeskError(409, "This run is not under way; there is nothing to stop.")
    pid = None if found.holder is None else pid_of(found.holder)
    context.starter.stop(found.run_id, pid)
    context.record(RUN_STOPPED, run_id=found.run_id)
    return see_other(f"/runs/{found.run_id}")


def resume(context: Context) -> Response:
    """Resume a run that was stopped or killed, under another cap where one is given."""
    found = context.run
    if not _of_own_branches(context, found):
        context.require_branch()
    if found.flow != SCREEN_FLOW:
        raise DeskError(409, "Only screenings are resumed here; the others by their command.")
    if found.state not in {"stopped", KILLED}:
        raise DeskError(409, "This run is not one that can be resumed.")
    if found.run_id in {each.run_id for each in context.waiting_approvals}:
        raise DeskError(409, "This run waits for approval; it goes on once it is approved.")
    cap = plain_naira(context.text("max_spend", 20))
    given = {"run": found.run_id, **({"max_spend": cap} if cap else {})}
    parameters, approval = screen_parameters(given), context.approvals.newest(found.run_id)
    if approval is None:
        context.starter.start(parameters)
    elif waits_in_inbox(found, context.settings):
        raise DeskError(409, "The file of this run waits in the inbox, whose watch resumes it.")
    else:
        _resume_approved(context, found, approval, given)
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
    number, own = (each.count_to_review()[0] for each in (rows, rows.within(context.branches)))
    return own == number > 0


# --- what people decide of runs ---


def approvals(context: Context) -> Response:
    """Show every run that waits, oldest first."""
    return context.page("approvals", waiting=_waiting(context), **context.money_facts())


def _waiting(context: Context) -> list[dict[str, Any]]:
    """Return what the pages say of each approval that waits."""
    waiting = []
    for approval in context.waiting_approvals:
        run, quote = context.journal.runs.find(approval.run_id), approval.quote
        upload = context.uploads.of_run(run)
        ends = [] if upload is None else [approval.at + RESUMABLE_DAYS * DAY_MICROS]
        if run is not None and run.parameters.get("deadline"):
            ends.append(deadline_instant(str(run.parameters["deadline"]), run.started_at) or 0)
        reused = {name: each["reused"] for name, each in quote.get("checks", {}).items()}
        shown = {
            "approval": approval,
            "name": quote.get("batch", "") if upload is None else upload.name,
            "asked_by": approval.asked_by if upload is None else upload.user,
            "most": from_micro(approval.offered_micro),
            "reused": reused or None,
            "until": min(filter(None, ends), default=None),
            "own": run is not None and context.approvals.is_own(context.actor, approval, run),
        }
        waiting.append(shown)
    return waiting


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
    run = context.run
    _resume_approved(context, run, decided, resumed(run, decided, context.clock()))
    return see_other(f"/runs/{run_id}")


def _resume_approved(
    context: Context, run: RunRecord, approval: Approval, given: Mapping[str, str]
) -> None:
    """Resume an approved run.

    Raises:
        UsageError: it cannot be resumed; the text says why, and what to type.
    """
    try:
        context.starter.resume(run, approval, given)
    except NightscreenError as error:
        raise UsageError(not_resumed(run, given, error)) from None


def sign(context: Context) -> Response:
    """Sign a run's report as it stands."""
    found = context.run
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
    found, declared = context.run, read_declarations(context.settings)
    note = context.text("note", 2000)
    confirm_proposals(context.journal, context.actor, found.run_id, declared, note=note)
    return see_other(f"/runs/{found.run_id}")


def release(context: Context) -> Response:
    """Release a run that was held."""
    found, declared = context.run, read_declarations(context.settings)
    reason = context.text("reason", 2000)
    release_run(context.journal, context.actor, found.run_id, reason, declared)
    return see_other(f"/runs/{found.run_id}")
