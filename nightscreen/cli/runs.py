"""`nightscreen runs`, `approve` and `doctor`.

The journal records the decision on a run's spending. An approved run is resumed by the deployment
that started it, by the watch of the inbox where its file waits, or by this process.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightscreen.cli.command import Result, RunArgument, command, group, read_options
from nightscreen.cli.command import show as show_as
from nightscreen.cli.context import opened_journal, settings_of_command
from nightscreen.cli.engine import run_flow, set_engine_defaults
from nightscreen.cli.output import about, say
from nightscreen.cli.screen import screened
from nightscreen.config.declarations import read_declarations
from nightscreen.config.parameters import SCREEN_FLOW, ScreenBatch
from nightscreen.journal.actor import Actor
from nightscreen.journal.approvals import Approvals
from nightscreen.journal.money import Spent
from nightscreen.journal.runs import RUNNING
from nightscreen.ops.status import COMMANDS, HUNG, not_resumed, resume_command, state_of
from nightscreen.schemas.approvals import ApprovalDecision
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.errors import NightscreenError, UsageError
from nightscreen.schemas.money import naira_text, naira_words, to_micro

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nightscreen.journal import Journal
    from nightscreen.journal.runs import RunRecord
    from nightscreen.schemas.approvals import Approval, ApprovalState


app = group("runs", "Past runs, newest first.")


def _document(
    journal: Journal, run: RunRecord, approval: ApprovalState | None, spent: Mapping[str, Spent]
) -> dict[str, Any]:
    """Return a run's document, with the same state and cost as doctor and desk show."""
    counters = spent.get(run.run_id, Spent())
    state = state_of(journal.home, run, journal.clock())
    return {
        "run_id": run.run_id,
        "flow": run.flow,
        "batch": run.batch,
        "purpose": run.purpose,
        "state": state,
        "stop_reason": run.stop_reason,
        "approval": approval,
        "started_at": instant_text(run.started_at),
        "finished_at": instant_text(run.finished_at),
        "rows": (run.report or {}).get("rows"),
        "cost": naira_text(counters.spent_micro),
        "cap": naira_text(run.cap_micro),
        "folder": run.folder,
        "resumable": run.state in {"killed", "stopped"},
    }


@command("runs list --json", of=app, view="runs")
def list_() -> Result:
    """List past runs, newest first, killed ones included."""
    settings = settings_of_command()
    with opened_journal(settings) as journal:
        approval_of = partial(Approvals(journal).state_of, valid=settings.approval_timeout)
        spent = journal.money.by_run()
        runs = journal.runs.newest()
        document = {"runs": [_document(journal, run, approval_of(run), spent) for run in runs]}
    return Result(document, more={"commands": COMMANDS})


def _show_run(document: dict[str, Any]) -> None:
    """Print a run as its own command did at its end."""
    report, flow, folder = document["report"], document["flow"], document["folder"].rstrip("/")
    if report is None:
        again = resume_command(document["run_id"], flow) or "begin it anew with its own command"
        is_running = document["state"] in {RUNNING, HUNG}
        show_as("unfinished", document, {"again": "" if is_running else again})
        return
    if flow == "track_loans":
        from nightscreen.cli.flows import with_loans

        report = with_loans(report, Path(folder))
    view = "summary" if flow == SCREEN_FLOW else "person-run"
    show_as(view, report, about(report, folder.rpartition("/")[0]))


@command("runs show 20260301-220000-a1b2c3", of=app, view=_show_run)
def show(run_id: RunArgument) -> dict[str, Any]:
    """Show one run: how it ended, what it cost, where its files are."""
    settings = settings_of_command()
    with opened_journal(settings) as journal:
        run = journal.runs.get(run_id)
        approvals = Approvals(journal)
        state = approvals.state_of(run, valid=settings.approval_timeout)
        return {
            **_document(journal, run, state, {run_id: journal.money.of_run(run_id)}),
            "parameters": run.parameters,
            "report": run.report,
            "approvals": [each.document() for each in approvals.of_run(run_id)],
        }


@command("runs release 20260301-220000-a1b2c3 --reason 'new branch'", of=app, view="released")
def release(
    run_id: RunArgument,
    reason: Annotated[str, typer.Option(help="Why it may be published; no personal data.")],
) -> dict[str, Any]:
    """Release a run that was held because its results were not plausible."""
    from nightscreen.runs.open_cases import release as release_run  # loads the tables

    settings = settings_of_command()
    actor = Actor.by_command(settings)
    with opened_journal(settings) as journal:
        report = release_run(journal, actor, run_id, reason, read_declarations(settings))
    return {
        "run_id": run_id,
        **{name: report[name] for name in ("publishable", "held", "released")},
    }


@command("approve 20260301-220000-a1b2c3 --max-spend 50000", view="decided")
def approve(
    run_id: RunArgument,
    max_spend: Annotated[
        str,
        typer.Option(
            metavar="NAIRA",
            help="The run's cap; default: its own, or the highest amount of its quote if less.",
        ),
    ] = "",
    refuse: Annotated[
        bool, typer.Option("--refuse", help="Refuse instead: the run is not resumed.")
    ] = False,
    note: Annotated[
        str, typer.Option(metavar="TEXT", help="Why, for the record; no customer's name or number.")
    ] = "",
) -> Result:
    """Approve the spending of a run that waits for it, and resume the run under that cap."""
    from nightscreen.runs.approval import resumed, waits_in_inbox  # loads the tables

    if refuse and max_spend:
        raise UsageError("--refuse spends nothing: leave --max-spend out")
    cap = read_options(ScreenBatch, {"max_spend": max_spend}).cap
    decision = ApprovalDecision.REFUSED if refuse else ApprovalDecision.APPROVED
    settings = settings_of_command()
    with opened_journal(settings) as journal:
        run = journal.runs.get(run_id)
        cap_micro = None if cap is None else to_micro(cap)
        actor = Actor.by_command(settings)
        approvals = Approvals(journal)
        approval = approvals.decide(actor, run_id, decision, note=note, max_spend_micro=cap_micro)
        given = resumed(run, approval, journal.clock())
    document: dict[str, Any] = {"approval": approval.document()}
    if refuse:
        return Result(document)
    say(
        f"Run {run_id} is approved up to {naira_words(approval.max_spend_micro)}, by "
        f"{approval.decided_by}."
    )
    waits = waits_in_inbox(run, settings)
    try:
        deployment = hand_to_deployment(run, approval, given, waits_in_inbox=waits)
        if deployment is not None:
            return Result({**document, "resumed_by": f"the deployment {deployment}"})
        if run.flow != SCREEN_FLOW:
            from nightscreen.cli.flows import KINDS, run_or_quote

            kind = KINDS[run.flow]
            return run_or_quote(kind, kind.form.model_validate(given), settings)
        if not waits:
            return screened(ScreenBatch.model_validate(given), settings)
        watch = run_flow("watch_inbox:resume_waiting", run_id, tell=say, shown=False)
    except NightscreenError as error:
        raise type(error)(not_resumed(run, given, error)) from None
    if watch is None:
        return Result({**document, "resumed_by": "the watch of the inbox"})
    return Result({**document, "inbox": watch.fates}, 0 if watch.fates.get("screened") else 3)


def hand_to_deployment(
    run: RunRecord, approval: Approval, given: Mapping[str, str], *, waits_in_inbox: bool
) -> str | None:
    """Have the deployment that started a run resume it; return its name, None without one."""
    if approval.deployment_id is None:
        return None
    set_engine_defaults()
    from nightscreen.tasks.server import resume_in_deployment

    work = resume_in_deployment(run, approval.deployment_id, given, waits_in_inbox=waits_in_inbox)
    return asyncio.run(work)


@command("doctor 20260301-220000-a1b2c3", view="doctor")
def doctor(
    run_id: Annotated[
        str, typer.Argument(metavar="[RUN_ID]", help="Id of the run; the newest by default.")
    ] = "",
) -> Result:
    """Diagnose problems and suggest the next command."""
    set_engine_defaults()
    from nightscreen.ops.doctor import diagnose, unreadable_settings  # loads the tables
    from nightscreen.tasks.server import look_at_engine

    try:
        settings = settings_of_command()
    except NightscreenError as error:
        diagnosis = unreadable_settings(error, look_at_engine())
    else:
        diagnosis = diagnose(settings, run_id, more=look_at_engine())
    return Result(diagnosis.document(), diagnosis.exit_status)
