"""Waits grow by class of failure, with full jitter, and end."""

from __future__ import annotations

import random

from nightscreen.client.classify import CallOutcome
from nightscreen.client.response_rules import ChargeStatus, FailureReason
from nightscreen.client.retry import BY_TROUBLE, next_attempt


def failed(trouble: FailureReason = FailureReason.OVERLOAD, **more: float) -> CallOutcome:
    """Return a reading that may be tried again."""
    return CallOutcome(ChargeStatus.IN_DOUBT, trouble=trouble, retry=True, **more)  # type: ignore[arg-type]


def test_no_retry_where_the_reading_forbids_it() -> None:
    """A rejected call and an answer are final."""
    for reading in (CallOutcome(ChargeStatus.ANSWERED), CallOutcome(ChargeStatus.NOT_CHARGED)):
        assert next_attempt(reading, 1, 5, random=random.Random(1)) is None


def test_attempts_end() -> None:
    """The last attempt is the last."""
    assert next_attempt(failed(), 4, 5, random=random.Random(1)) is not None
    assert next_attempt(failed(), 5, 5, random=random.Random(1)) is None


def test_waits_double_up_to_a_bound_with_full_jitter() -> None:
    """Waits spread over the whole span from nought."""
    for trouble in list(BY_TROUBLE):
        source, backoff = random.Random(1), BY_TROUBLE[trouble]
        for attempt in range(1, 40):
            bound = min(backoff.longest_s, backoff.first_s * 2 ** (attempt - 1))
            waits = [next_attempt(failed(trouble), attempt, 99, random=source) for _ in range(200)]
            spread = [wait for wait in waits if wait is not None]
            assert len(spread) == 200, trouble
            assert max(spread) <= bound, trouble
            assert min(spread) < 0.1 * bound, trouble
            assert max(spread) > 0.9 * bound, trouble


def test_retry_after_is_the_least_wait() -> None:
    """What the service asks for is kept, and calls do not come back together."""
    source = random.Random(1)
    reading = failed(FailureReason.REFUSED, retry_after_s=7.0)
    waits = {next_attempt(reading, 1, 5, random=source) for _ in range(20)}
    assert len(waits) == 20
    assert min(wait for wait in waits if wait is not None) >= 7.0


def test_one_answer_is_not_waited_for_an_hour() -> None:
    """A call by itself comes back after five minutes and a little, whatever it was told."""
    source = random.Random(1)
    reading = failed(FailureReason.REFUSED, retry_after_s=3600.0)
    wait_s = next_attempt(reading, 1, 5, random=source)
    assert wait_s is not None
    assert 300 <= wait_s < 310
