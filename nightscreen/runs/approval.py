"""Approval of a run's spending: whether it is needed, the request, and its use.

A run that needs approval saves a request in the journal and ends. `journal/approvals.py` has the
decisions; a run of any flow uses one when it is resumed.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightscreen.files.inbox import WAITING
from nightscreen.journal.actor import Actor, has_users
from nightscreen.journal.approvals import Approvals
from nightscreen.planning.price import RECENT_RUNS, approval_reason
from nightscreen.schemas.approvals import Approval, ApprovalDecision, ApprovalState
from nightscreen.schemas.clock import LAGOS, deadline_instant, span_micros, to_instant
from nightscreen.schemas.errors import InputError, UsageError
from nightscreen.schemas.money import naira_text, to_micro
from nightscreen.schemas.stops import StopReason

if TYPE_CHECKING:
    from collections.abc import Callable

    from nightscreen.calling.run import Run
    from nightscreen.config.settings import Settings
    from nightscreen.journal import Journal
    from nightscreen.journal.runs import RunRecord


def approval_needed(run: Run) -> str | None:
    """Return why a person must approve the spending, or None if no approval is needed.

    `yes` approves it in advance. Where the desk has users, it decides nothing of a run that they
    were asked about: one of them may have refused it.
    """
    is_asked = has_users(run.journal) and Approvals(run.journal).newest(run.run_id) is not None
    if (run.parameters.yes and not is_asked) or run.quote is None:
        return None
    runs = run.journal.runs.newest(batch=run.batch, flow=run.flow, limit=RECENT_RUNS + 1)
    earlier = [
        to_micro(Decimal(before.report["cost"]["total"]))
        for before in runs
        if before.report is not None and before.run_id != run.run_id
    ]
    above = run.settings.approval_above
    return approval_reason(
        run.quote.expected_micro,
        above_micro=None if above is None else to_micro(above),
        earlier_micro=earlier,
    )


def may_spend(
    run: Run,
    quote: dict[str, Any],
    *,
    by: str,
    deployment_id: str | None = None,
    ask_here: Callable[[Approval], bool] | None = None,
) -> bool:
    """Return whether a priced run may spend; if not, save its request and stop it.

    An approval covers the approved amount: a run with a higher cap needs another one.

    Args:
        run: the run.
        quote: its quote, as approvers see it.
        by: the user, or the deployment, that started it.
        deployment_id: the deployment through which it is to be resumed.
        ask_here: asks the person at the terminal; None without a terminal.
    """
    reason = approval_needed(run)
    if reason is None or _use(run):
        return True
    if run.quote is None:
        raise ValueError("a run asks for approval once it is priced")
    approvals = Approvals(run.journal)
    newest, valid = approvals.newest(run.run_id), span_micros(run.settings.approval_timeout)
    state = None if newest is None else newest.state(run.clock(), valid_micros=valid)
    if newest is not None and newest.decided_at and state is ApprovalState.VOID:
        at = to_instant(newest.decided_at).astimezone(LAGOS)
        run.stops.notices.append(
            f"The approval of {at:%Y-%m-%d %H:%M} in Lagos is void: no run used it in time "
            "(NIGHTSCREEN_APPROVAL_TIMEOUT). The run must be approved again."
        )
    asked = approvals.ask(
        run.run_id,
        asked_by=by,
        reason=reason,
        quote=quote,
        ceiling_micro=run.spent_before_micro + run.quote.high_micro,
        cap_micro=run.caps.run_micro,
        deployment_id=deployment_id,
    )
    if ask_here is not None and ask_here(asked) and _grant_on_the_spot(run, asked):
        return True
    run.stops.stop(StopReason.APPROVAL)
    return False


def _use(run: Run) -> bool:
    """Return whether an approval covers the run's cap, and record its use."""
    approvals = Approvals(run.journal)
    valid = run.settings.approval_timeout
    return approvals.use(run.run_id, valid=valid, cap_micro=run.caps.run_micro) is not None


def _grant_on_the_spot(run: Run, asked: Approval) -> bool:
    """Record the approval of the person at the terminal, and cap the run at the amount shown."""
    approvals, actor = Approvals(run.journal), Actor.by_command(run.settings)
    with suppress(UsageError):  # another person decided first: their decision counts
        approvals.decide(actor, run.run_id, ApprovalDecision.APPROVED, seen=asked.key)
    newest = approvals.newest(run.run_id)
    if newest is not None and newest.max_spend_micro is not None:
        run.caps = replace(run.caps, run_micro=newest.max_spend_micro)
        run.journal.runs.set_cap(run.run_id, newest.max_spend_micro)
    return _use(run)


def waits_in_inbox(run: RunRecord, settings: Settings) -> bool:
    """Return whether a run's file waits in the inbox, whose watch resumes the run."""
    folder = settings.inbox.absolute() / WAITING / run.run_id
    return Path(run.parameters.get("input") or "").parent == folder


def resumed(run: RunRecord, approval: Approval, now: int) -> dict[str, str]:
    """Return the parameters that resume an approved run; a deadline that is past is dropped."""
    deadline = deadline_instant(str(run.parameters.get("deadline") or ""), run.started_at)
    given = {"run": run.run_id, "max_spend": naira_text(approval.max_spend_micro) or ""}
    if deadline is not None and deadline > now:
        given["deadline"] = f"{to_instant(deadline).astimezone(LAGOS):%Y-%m-%dT%H:%M}"
    return given


def approved_cap(journal: Journal, run: RunRecord, settings: Settings) -> dict[str, str]:
    """Return the parameter that caps a resumed run at what was approved; none without an approval.

    Raises:
        InputError: its spending was refused, and nobody has approved it since.
    """
    newest = Approvals(journal).newest(run.run_id)
    if newest is None:
        return {}
    state = newest.state(journal.clock(), valid_micros=span_micros(settings.approval_timeout))
    if state is ApprovalState.REFUSED:
        at = to_instant(newest.decided_at or 0).astimezone(LAGOS)
        raise InputError(
            f"the spending of run {run.run_id} was refused by {newest.decided_by} on "
            f"{at:%Y-%m-%d %H:%M} in Lagos, so that it asks nothing; to let it go on all the same: "
            f"nightscreen approve {run.run_id}"
        )
    is_approved = state is ApprovalState.APPROVED
    return {"max_spend": naira_text(newest.max_spend_micro) or ""} if is_approved else {}
