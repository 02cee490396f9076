"""Why a run stopped early, in the words of the report; what stops it is for `steps/control`."""

from __future__ import annotations

from enum import StrEnum


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
