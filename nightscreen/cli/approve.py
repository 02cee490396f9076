"""`nightscreen approve`: a decision on a run's spending, and what follows from it.

The decision is a record of the journal (`journal.approvals`). An approved run is resumed by
the deployment that started it, by the watch of the inbox its file waits in, or by this process.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightscreen.cli.common_options import JsonOption  # noqa: TC001 - Typer reads the annotation when it runs
from nightscreen.cli.options import read_options
from nightscreen.cli.output import print_json

if TYPE_CHECKING:
    from nightscreen.config.parameters import ScreenBatch
    from nightscreen.config.settings import Settings
    from nightscreen.journal.runs import RunRecord
    from nightscreen.schemas.approvals import Approval, ApprovalDecision

RunArgument = Annotated[str, typer.Argument(metavar="RUN_ID", help="Id of the run that waits.")]
NoteOption = Annotated[
    str, typer.Option(metavar="TEXT", help="Why, for the record; no customer's name or number.")
]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(
        "approve",
        epilog="Example: nightscreen approve 20260301-220000-a1b2c3 --max-spend 50000",
    )(approve)


def approve(
    run_id: RunArgument,
    max_spend: Annotated[
        str,
        typer.Option(
            metavar="NAIRA",
            help="The run's cap; by default its own, or the most of its quote where that is less.",
        ),
    ] = "",
    refuse: Annotated[
        bool, typer.Option("--refuse", help="Refuse instead: the run stays ended, asks nothing.")
    ] = False,
    note: NoteOption = "",
    json_output: JsonOption = False,
) -> None:
    """Approve the spending of a run that waits for it, and resume the run under that cap."""
    from nightscreen.config.parameters import ScreenBatch
    from nightscreen.schemas.approvals import ApprovalDecision
    from nightscreen.schemas.errors import UsageError
    from nightscreen.schemas.money import to_micro

    if refuse and max_spend:
        raise UsageError("--refuse spends nothing: leave --max-spend out")
    cap = read_options(ScreenBatch, {"max_spend": max_spend}).cap
    settings, run, approval, parameters = _decide(
        run_id,
        ApprovalDecision.REFUSED if refuse else ApprovalDecision.APPROVED,
        note=note,
        max_spend_micro=None if cap is None else to_micro(cap),
    )
    if not refuse:
        raise typer.Exit(_resume(settings, run, approval, parameters, json_output=json_output))
    if json_output:
        print_json({"approval": approval_document(approval)})
    else:
        typer.echo(
            f"Run {run_id} is refused: it asks nothing and costs nothing. It stays in the list of "
            "runs; nightscreen approve resumes it all the same."
        )


def approval_document(approval: Approval) -> dict[str, Any]:
    """Return an approval for programs; instants in UTC, money as decimal text in naira."""
    from nightscreen.schemas.clock import instant_text
    from nightscreen.schemas.money import naira_text

    return {
        "run_id": approval.run_id,
        "decision": approval.decision,
        "asked_by": approval.asked_by,
        "asked_at": instant_text(approval.asked_at),
        "reason": approval.reason,
        "quoted": approval.quote["quoted"],
        "ceiling": naira_text(approval.ceiling_micro),
        "cap": naira_text(approval.cap_micro),
        "decided_by": approval.decided_by,
        "decided_at": instant_text(approval.decided_at),
        "max_spend": naira_text(approval.max_spend_micro),
        "note": approval.note,
    }


def _decide(
    run_id: str,
    decision: ApprovalDecision,
    *,
    note: str,
    max_spend_micro: int | None = None,
) -> tuple[Settings, RunRecord, Approval, ScreenBatch]:
    """Write the decision down; return what resuming the run needs.

    Raises:
        InputError: there is no such run, or it does not wait for approval.
        UsageError: the desk has users: one of them decides there.
    """
    from nightscreen.cli.deciding import require_no_desk
    from nightscreen.cli.env_settings import settings_of_command
    from nightscreen.cli.journal_context import opened_journal
    from nightscreen.files.person import user_name
    from nightscreen.journal.approvals import Approvals
    from nightscreen.journal.audit import Audit
    from nightscreen.runs.approval import resumed
    from nightscreen.schemas.errors import InputError
    from nightscreen.schemas.money import naira_text

    with opened_journal() as journal:
        run = journal.runs.find(run_id)
        if run is None:
            raise InputError(f"there is no run {run_id}; see: nightscreen runs list")
        settings = settings_of_command()
        require_no_desk(settings, "/approvals")
        approval = Approvals.of(journal).decide(
            run_id, decision, by=user_name(), note=note, max_spend_micro=max_spend_micro
        )
        word = "approved" if approval.max_spend_micro is not None else "refused"
        cap = naira_text(approval.max_spend_micro)
        Audit(journal).write_by_command(f"spending {word}", run_id=run_id, max_spend=cap)
        return settings, run, approval, resumed(run, approval, journal.clock())


def _resume(
    settings: Settings,
    run: RunRecord,
    approval: Approval,
    parameters: ScreenBatch,
    *,
    json_output: bool,
) -> int:
    """Resume an approved run; return the exit status."""
    from nightscreen.cli.preflight import check_service
    from nightscreen.cli.screen import graceful_sigint, prepare_engine, screen_file
    from nightscreen.runs.approval import waits_in_inbox
    from nightscreen.schemas.errors import NightscreenError
    from nightscreen.schemas.money import naira_words
    from nightscreen.tasks.logs import say_on_stderr

    say_on_stderr(
        f"Run {run.run_id} is approved up to {naira_words(approval.max_spend_micro)}, by "
        f"{approval.decided_by}."
    )
    waits = waits_in_inbox(run, settings)
    deployment = hand_to_deployment(approval, parameters, waits_in_inbox=waits)
    if deployment is not None:
        return _handed_over(approval, f"the deployment {deployment}", json_output=json_output)
    try:
        check_service(settings)
        if not waits:
            given = parameters.model_dump(exclude_unset=True)
            return screen_file(given, json_output=json_output)
        with graceful_sigint():
            prepare_engine()
            from nightscreen.flows.watch_inbox import resume_waiting

            watch = asyncio.run(resume_waiting(run.run_id, tell=say_on_stderr))
    except NightscreenError as error:
        text = f"run {run.run_id} is approved, but it could not be resumed here: {error}"
        raise type(error)(text) from None
    if watch is None:
        return _handed_over(approval, "the watch of the inbox", json_output=json_output)
    if json_output:
        print_json({"approval": approval_document(approval), "inbox": watch.fates})
    return 0 if watch.fates.get("screened") else 3


def hand_to_deployment(
    approval: Approval, parameters: ScreenBatch, *, waits_in_inbox: bool
) -> str | None:
    """Have the deployment that started the run resume it; None if none did, or it is gone."""
    if approval.deployment_id is None:
        return None
    from nightscreen.cli.screen import set_engine_defaults

    set_engine_defaults()
    from nightscreen.tasks.approval import resume_in_deployment

    return asyncio.run(resume_in_deployment(approval, parameters, waits_in_inbox=waits_in_inbox))


def _handed_over(approval: Approval, to: str, *, json_output: bool) -> int:
    if json_output:
        print_json({"approval": approval_document(approval), "resumed_by": to})
    else:
        typer.echo(f"It is resumed by {to}. To see its state: nightscreen doctor {approval.run_id}")
    return 0
