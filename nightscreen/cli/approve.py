"""`nightscreen approve`: a decision on a run's spending, and what follows from it.

The decision is a record of the journal. An approved run is resumed by the deployment that started
it, by the watch of the inbox its file waits in, or by this process.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightscreen.cli.command import Result, RunArgument, command, read_options
from nightscreen.cli.context import opened_journal, settings_of_command
from nightscreen.cli.engine import run_flow, set_engine_defaults
from nightscreen.cli.output import say
from nightscreen.cli.screen import screened
from nightscreen.config.parameters import ScreenBatch
from nightscreen.journal.actor import Actor
from nightscreen.runs.approval import decide_spending, resumed, waits_in_inbox
from nightscreen.runs.run import require_service
from nightscreen.schemas.approvals import ApprovalDecision
from nightscreen.schemas.errors import InputError, NightscreenError, UsageError
from nightscreen.schemas.money import naira_words, to_micro

if TYPE_CHECKING:
    from nightscreen.schemas.approvals import Approval


@command("approve 20260301-220000-a1b2c3 --max-spend 50000", view="decided")
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
        bool, typer.Option("--refuse", help="Refuse instead: the run stays ended, makes no calls.")
    ] = False,
    note: Annotated[
        str, typer.Option(metavar="TEXT", help="Why, for the record; no customer's name or number.")
    ] = "",
) -> Result:
    """Approve the spending of a run that waits for it, and resume the run under that cap."""
    if refuse and max_spend:
        raise UsageError("--refuse spends nothing: leave --max-spend out")
    cap = read_options(ScreenBatch, {"max_spend": max_spend}).cap
    decision = ApprovalDecision.REFUSED if refuse else ApprovalDecision.APPROVED
    settings = settings_of_command()
    with opened_journal() as journal:
        run = journal.runs.find(run_id)
        if run is None:
            raise InputError(f"there is no run {run_id}; see: nightscreen runs list")
        most = None if cap is None else to_micro(cap)
        actor = Actor.by_command(settings)
        approval = decide_spending(
            journal, actor, run_id, decision, note=note, max_spend_micro=most
        )
        parameters = resumed(run, approval, journal.clock())
    document: dict[str, Any] = {"approval": approval.document()}
    if refuse:
        return Result(document)
    say(
        f"Run {run_id} is approved up to {naira_words(approval.max_spend_micro)}, by "
        f"{approval.decided_by}."
    )
    waits = waits_in_inbox(run, settings)
    deployment = hand_to_deployment(approval, parameters, waits_in_inbox=waits)
    if deployment is not None:
        return Result({**document, "resumed_by": f"the deployment {deployment}"})
    try:
        require_service(settings, quote_only=False)
        if not waits:
            return screened(parameters)
        watch = run_flow("watch_inbox:resume_waiting", run_id, tell=say, shown=False)
    except NightscreenError as error:
        text = f"run {run_id} is approved, but it could not be resumed here: {error}"
        raise type(error)(text) from None
    if watch is None:
        return Result({**document, "resumed_by": "the watch of the inbox"})
    return Result({**document, "inbox": watch.fates}, 0 if watch.fates.get("screened") else 3)


def hand_to_deployment(
    approval: Approval, parameters: ScreenBatch, *, waits_in_inbox: bool
) -> str | None:
    """Have the deployment that started the run resume it; None if none did, or it is gone."""
    if approval.deployment_id is None:
        return None
    set_engine_defaults()
    from nightscreen.tasks.server import resume_in_deployment

    return asyncio.run(resume_in_deployment(approval, parameters, waits_in_inbox=waits_in_inbox))
