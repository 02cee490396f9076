"""Suggestions: for each state of a run, what to fix first and the exact command to type next.

Words only; `diagnostics` finds out the state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nightscreen.schemas.approvals import ApprovalState
from nightscreen.schemas.money import naira_words
from nightscreen.schemas.stops import REFUSALS, WHY, StopReason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DOCTOR = "nightscreen doctor"
NAIRA = 1_000_000
COMMANDS: Mapping[str, str] = {
    "screen_batch": "nightscreen screen",
    "pull_transactions": "nightscreen transactions pull",
    "pull_accounts": "nightscreen transactions pull --accounts",
    "request_bvns": "nightscreen bvn request",
    "confirm_bvns": "nightscreen bvn confirm",
    "offer_loans": "nightscreen loans offer",
    "track_loans": "nightscreen loans track",
}
"""The command of each flow whose runs can be resumed."""
_DAY_BEGINS = "which begins at noon in Lagos"

ENDS: Mapping[str, str] = {**WHY, StopReason.BUDGET: "a spending cap was reached"}


@dataclass(frozen=True, slots=True)
class Remedy:
    """What to do: `first` in words if something must be fixed, then `command` to type."""

    first: str
    command: str


@dataclass(frozen=True, slots=True)
class Shortage:
    """The money that the rest of a stopped run needs, in micro-naira.

    Attributes:
        missing_micro: worst cost of the lookups that are still to be asked; None where unknown.
        bound_micro: what the run has spent, with what is reserved for calls in doubt.
        cap_micro: the run's own cap.
        day_left_micro: what is left under the day's cap, None where there is none.
        month_left_micro: the same under the month's.
    """

    missing_micro: int | None = None
    bound_micro: int = 0
    cap_micro: int | None = None
    day_left_micro: int | None = None
    month_left_micro: int | None = None


@dataclass(frozen=True, slots=True)
class Again:
    """How a run is resumed.

    Attributes:
        run_id: the run.
        flow: the flow it is a run of, as the journal has it.
        options: what it was given and must be given again.
    """

    run_id: str
    flow: str = "screen_batch"
    options: tuple[str, ...] = ()

    def command(self, *more: str) -> str:
        """Return the command that resumes it."""
        words = COMMANDS.get(self.flow)
        if words is None:
            return f"nightscreen runs show {self.run_id}"
        return " ".join((words, "--run", self.run_id, *more, *self.options))


def for_stop(
    again: Again,
    reason: str | None,
    shortage: Shortage,
    *,
    refused: Sequence[str] = (),
    service: Remedy | None = None,
) -> Remedy:
    """Return what ends a stop.

    Args:
        again: how the run is resumed.
        reason: its stop reason.
        shortage: the money that the rest of it needs.
        refused: what is wrong with address, key or rights, in sentences.
        service: how to fix the connection to the service, if that is broken now.
    """
    if reason == StopReason.BUDGET:
        return _for_budget(again, shortage)
    need = shortage.missing_micro
    by = f" by about {naira_words(need)}" if need else ""
    table: Mapping[str | None, str] = {
        StopReason.BALANCE: f"top the wallet up{by}, above NIGHTSCREEN_BALANCE_FLOOR if set",
        StopReason.AUTH: "; ".join(refused)
        or f"{REFUSALS['auth']}; where a notice of the report names the price list, correct that",
        StopReason.OUTAGE: "; ".join(refused) or _for_outage(service),
        StopReason.FAILURES: "look at the errors by kind above: what was rejected is asked again",
        StopReason.DEADLINE: "it goes on without a deadline; add --deadline 06:00 to set one",
        StopReason.QUOTA: f"wait for the next day, {_DAY_BEGINS}, or raise "
        "NIGHTSCREEN_MAX_PER_DAY__<CHECK>",
    }
    return Remedy(table.get(reason, ""), again.command())


def _for_outage(service: Remedy | None) -> str:
    """Wait only if nothing can be fixed on this side."""
    if service is not None and service.first:
        return service.first
    return "the service answers again: nothing to wait for"


def _for_budget(again: Again, shortage: Shortage) -> Remedy:
    """Say which cap is in the way, and how far it must be raised."""
    missing = shortage.missing_micro or 0
    lefts = (
        ("DAILY", f"wait for the next day, {_DAY_BEGINS},", shortage.day_left_micro),
        ("MONTHLY", "wait for the next month", shortage.month_left_micro),
    )
    first = ", and ".join(
        f"{wait} or raise NIGHTSCREEN_{name}_SPEND_CAP by {naira_words(missing - left)}"
        for name, wait, left in lefts
        if left is not None and left < missing
    )
    cap = shortage.cap_micro
    if cap is not None and (not first or cap - shortage.bound_micro < missing):
        needed = max(shortage.bound_micro + missing, cap + NAIRA)
        return Remedy(first, again.command("--max-spend", str(-(-needed // NAIRA))))
    return Remedy(first, again.command())


def for_approval(again: Again, state: ApprovalState) -> Remedy:
    """Return how a run goes on that ended for want of approval."""
    approve = f"nightscreen approve {again.run_id}"
    table: Mapping[ApprovalState, Remedy] = {
        ApprovalState.WAITING: Remedy("ask an approver to approve the spending", approve),
        ApprovalState.APPROVED: Remedy("", again.command()),
        ApprovalState.REFUSED: Remedy("only to approve it all the same", approve),
        ApprovalState.VOID: Remedy("ask an approver to approve the spending again", approve),
    }
    return table[state]


def for_test_mode(again: Again) -> Remedy:
    """Return what ends test mode."""
    return Remedy(
        "switch the service to live in its console, and set a live NIGHTSCREEN_API_KEY",
        again.command(),
    )


def for_killed(again: Again) -> Remedy:
    """Return how a run goes on whose process died."""
    return Remedy("", again.command())


def for_held(run_id: str) -> Remedy:
    """Return how a night is let out that was held back as implausible."""
    return Remedy(
        "look at the notices in report.html: the night is held back as implausible",
        f"nightscreen runs release {run_id} --reason 'why it may be published'",
    )


def for_hung(again: Again, pid: int | None) -> Remedy:
    """Return how a process is ended that lives and does nothing."""
    first = "end its process on the machine it runs on"
    if pid is not None:
        first = f"end process {pid}: kill -TERM {pid}, and kill -KILL {pid} if that does nothing"
    return Remedy(first, again.command())
