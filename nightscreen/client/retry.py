"""Retry rules: how long to wait before a lookup is tried again, and when to give up.

Waits grow with each attempt, by class of failure, with full jitter, so that calls refused together
are not retried together. `data/manners.toml` says which failures may be retried. The caller decides
whether another attempt is affordable, and does the waiting, during which a lookup should occupy no
slot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nightscreen.client.response_rules import FailureReason

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from nightscreen.client.classify import CallOutcome


@dataclass(frozen=True, slots=True)
class Backoff:
    """The longest wait in seconds: before the second attempt, and before any attempt."""

    first_s: float
    longest_s: float


BY_TROUBLE: Mapping[FailureReason, Backoff] = {
    FailureReason.NOT_SENT: Backoff(first_s=0.5, longest_s=30),
    FailureReason.CUT: Backoff(first_s=0.5, longest_s=30),
    FailureReason.UNREADABLE: Backoff(first_s=1, longest_s=30),
    FailureReason.TIMEOUT: Backoff(first_s=1, longest_s=60),
    FailureReason.OVERLOAD: Backoff(first_s=2, longest_s=60),
    FailureReason.REFUSED: Backoff(first_s=2, longest_s=60),
}
OTHERWISE = Backoff(first_s=2, longest_s=60)  # as for an overload, which waits longest

MOST_DOUBLINGS = 16  # bounds 2**attempt; `longest_s` is reached after six

LONE_WAIT_S = 300.0
"""Limit for the `Retry-After` of a single answer, because an ad-hoc night ends after ten minutes
without an answer. If a second answer also asks for longer, `calling/stops.py` waits longer."""


def next_attempt(
    reading: CallOutcome, attempt: int, attempts: int, *, random: random.Random
) -> float | None:
    """Return seconds to wait before the next attempt, or None to give up."""
    if not reading.retry or attempt >= attempts:
        return None
    backoff = BY_TROUBLE.get(reading.trouble, OTHERWISE) if reading.trouble else OTHERWISE
    doubled = backoff.first_s * 2 ** min(attempt - 1, MOST_DOUBLINGS)
    jitter = random.uniform(0, min(backoff.longest_s, doubled))
    return min(reading.retry_after_s or 0.0, LONE_WAIT_S) + jitter
