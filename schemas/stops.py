"""Why a run stopped early, in the words of the report; what stops it is for `steps/control`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class StopReason(StrEnum):
    """Why a run stopped early (`report.json`, `stop_reason`)."""

    BUDGET = "budget"
    BALANCE = "balance"
    AUTH = "auth"
    OUTAGE = "outage"
    FAILURES = "failures"
    DEADLINE = "deadline"
    QUOTA = "quota"
    APPROVAL = "approval"
    CANCELLED = "cancelled"


WHY: Mapping[str, str] = {
    StopReason.BUDGET: "the spending cap was reached",
    StopReason.BALANCE: "the wallet is too low",
    StopReason.AUTH: "the service refused the API key, or an operation it has no right to",
    StopReason.OUTAGE: "the service gave no answers any more",
    StopReason.FAILURES: "too many lookups failed, or could not be read",
    StopReason.DEADLINE: "the deadline was reached",
    StopReason.QUOTA: "the day's number of lookups was used up",
    StopReason.APPROVAL: "spending was not approved in time",
    StopReason.CANCELLED: "it was cancelled",
}
"""Each reason as people read it."""
