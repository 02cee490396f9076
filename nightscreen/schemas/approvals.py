"""Approvals: a run's request to spend, its quote, and the decision.

`journal/approvals.py` stores them; `planning/price.py` decides when a run needs one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.money import naira_text
from nightscreen.schemas.records import Ground, JournalRecord

if TYPE_CHECKING:
    from collections.abc import Sequence


class ApprovalDecision(StrEnum):
    """An approver's decision."""

    APPROVED = "approved"
    REFUSED = "refused"


class ApprovalState(StrEnum):
    """The state of an approval."""

    WAITING = "waiting"
    APPROVED = "approved"
    REFUSED = "refused"
    VOID = "void"


class Approval(JournalRecord, kind="approval", ground=Ground.APPROVALS):
    """One request for approval, with its decision; instants in microseconds, money in micro-naira.

    Its key is the run's id and the number of the request; a later request replaces it.

    Attributes:
        asked_by: the user, or the deployment, that started the run.
        reason: why the run needs approval, without personal data.
        quote: the quote, as `nightscreen quote --json` prints it.
        ceiling_micro: the most the whole run may cost by that quote, money already spent included.
        cap_micro: the run's cap when it asked.
        deployment_id: the deployment that started the run; None if none did.
        decision: None while it waits.
        max_spend_micro: the most that the whole run may spend; None unless approved.
        note: the reason for the decision.
        used_at: when a run began to spend on it.
    """

    batch: str = ""
    asked_by: str
    reason: str
    quote: dict[str, Any]
    ceiling_micro: int
    cap_micro: int | None
    deployment_id: str | None = None
    decision: ApprovalDecision | None = None
    decided_by: str | None = None
    decided_at: int | None = None
    max_spend_micro: int | None = None
    note: str = ""
    used_at: int | None = None

    @staticmethod
    def next_key(run_id: str, every: Sequence[Approval]) -> str:
        """Return the key of a run's next record; a purge may have deleted earlier ones."""
        return f"{run_id}#{every[-1].number + 1 if every else 1}"

    @property
    def number(self) -> int:
        """Return its number among the requests of its run, which does not depend on clocks."""
        return int(self.key.rpartition("#")[2])

    @property
    def searched_state(self) -> str:
        """Return the state by which the table is searched."""
        return self.decision or ApprovalState.WAITING

    @property
    def offered_micro(self) -> int:
        """Return what the run may spend if the approver names no amount."""
        if self.cap_micro is None:
            return self.ceiling_micro
        return min(self.cap_micro, self.ceiling_micro)

    def document(self) -> dict[str, Any]:
        """Return the JSON document; instants in UTC, money as decimal text in naira."""
        return {
            "run_id": self.run_id,
            "decision": self.decision,
            "asked_by": self.asked_by,
            "asked_at": instant_text(self.at),
            "reason": self.reason,
            "quoted": self.quote["quoted"],
            "ceiling": naira_text(self.ceiling_micro),
            "cap": naira_text(self.cap_micro),
            "decided_by": self.decided_by,
            "decided_at": instant_text(self.decided_at),
            "max_spend": naira_text(self.max_spend_micro),
            "note": self.note,
        }

    def state(self, at: int, *, valid_micros: int) -> ApprovalState:
        """Return the state of the approval at an instant.

        An approval that no run used in time is void. A used one caps the whole run. A refusal is
        valid until someone approves. `valid_micros` is how long a run may wait before it uses an
        approval (APPROVAL_TIMEOUT).
        """
        if self.decision is None or self.decided_at is None:
            return ApprovalState.WAITING
        if self.decision is ApprovalDecision.REFUSED:
            return ApprovalState.REFUSED
        if self.used_at is None and at - self.decided_at > valid_micros:
            return ApprovalState.VOID
        return ApprovalState.APPROVED
