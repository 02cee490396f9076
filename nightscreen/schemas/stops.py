"""Why a run stopped early, with texts for people; `calling/stops` stops it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

COMPLETED, STOPPED, TEST_MODE = "completed", "stopped", "test_mode"
"""States of a run that has ended."""

ADDRESS = "address"
"""The stop of a run whose address answers, but not as the service does; reported as an outage."""

LOW_BALANCE = "the balance is low"  # the beginning of the notice


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
    StopReason.AUTH: "the service refused the API key or an operation it has no right to, or its "
    "costs are far from the price list",
    StopReason.OUTAGE: "the service gave no answers any more",
    StopReason.FAILURES: "too many lookups failed, or could not be read",
    StopReason.DEADLINE: "the deadline was reached",
    StopReason.QUOTA: "the day's number of lookups was used up",
    StopReason.APPROVAL: "its spending waits for approval",
    StopReason.CANCELLED: "it was cancelled",
}
"""Each reason as text for people."""

REFUSALS: Mapping[str, str] = {
    "address": "the address answers, but not as the service does: correct NIGHTSCREEN_BASE_URL",
    "auth": "the service refuses the API key: correct NIGHTSCREEN_API_KEY",
    "no_right": "the API key has no right to what was asked: ask the service's support to allow it",
    "unpriced": "what was asked is not offered to the account or has no price for it: ask the "
    "service's support to set it up",
    "distributor": "the key is no distributor's, so the service shows it no loans: ask the "
    "service's support to set the account up as a distributor, then use the key they send",
}
"""What is wrong and what to do if every call of a kind is refused, by the error of those calls.

All commands and pages use these texts.
"""
_NAMED = frozenset({"no_right", "unpriced"})


def refusals(calls: Iterable[tuple[str, str]]) -> list[str]:
    """Return what is wrong with address, key and rights, from pairs of operation and error."""
    refused: dict[str, dict[str, None]] = {}
    for operation, trouble in calls:
        if trouble in REFUSALS:
            refused.setdefault(trouble, {})[operation.replace("_", " ")] = None
    return [
        f"{sentence} ({', '.join(refused[trouble])})" if trouble in _NAMED else sentence
        for trouble, sentence in REFUSALS.items()
        if trouble in refused
    ]
