"""The one module of retry rules: how long to wait before a lookup is tried again, or not at all.

Waits grow with each attempt, by class of failure, with full jitter, so that calls refused together
do not come back together. Whether another attempt is affordable is the caller's business; a waiting
lookup should hold no slot.

What does not belong here: which failures may be retried (`data/manners.toml` says so) and sleeping.
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
    """The longest wait before the second attempt, and the longest of all, in seconds."""

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
OTHERWISE = Backoff(first_s=2, longest_s=60)  # as for an overload, the most patient of all

MOST_DOUBLINGS = 16  # `longest_s` is reached after six; without a bound 2**attempt grows for ever

LONE_WAIT_S = 300.0
"""For as long one answer's `Retry-After` is heard: an ad-hoc night ends after ten minutes without
an answer. Who knows that a second answer asks for longer waits longer (`calling/stops.py`)."""


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
