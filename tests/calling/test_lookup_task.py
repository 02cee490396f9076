"""What an attempt counts as in the wallet, and what of it the journal stores."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nightscreen.calling.lookup_task import LookupTask, most_charged, outcome_of
from nightscreen.client.classify import CallOutcome
from nightscreen.client.response_rules import ChargeStatus, FailureReason
from nightscreen.schemas.calls import Reservation, ReservationStatus
from tests.calling.lane_in_a_test import NAIRA, PRICE, hit, lost, refused, task

DEAR = 900 * NAIRA
UNREADABLE = CallOutcome(
    ChargeStatus.UNREADABLE, trouble=FailureReason.UNREADABLE, cost_micro=PRICE, body=b"?"
)


@pytest.mark.parametrize(
    ("reading", "named_micro", "counts_micro"),
    [
        (hit(), None, PRICE),
        (replace(hit(), cost_micro=PRICE // 2), None, PRICE // 2),
        (replace(hit(), cost_micro=None), None, PRICE),
        (lost(), None, PRICE),
        (refused(), None, 0),
        (replace(refused(), cost_micro=None), None, 0),
        (replace(hit(), cost_micro=DEAR), DEAR, PRICE),
    ],
    ids=["stated", "less", "not stated", "lost", "refused", "refused, not stated", "not believed"],
)
def test_the_most_that_an_attempt_can_have_cost(
    reading: CallOutcome, named_micro: int | None, counts_micro: int
) -> None:
    """What is unknown counts at the reservation, and so does a cost that is not believed."""
    assert most_charged(_reserved(), reading, named_micro) == counts_micro


@pytest.mark.parametrize(
    ("reading", "of_lookup", "of_api_call"),
    [
        (hit(), False, False),
        (UNREADABLE, True, True),
        (lost(), False, False),
        (lost(FailureReason.UNREADABLE), True, False),
    ],
    ids=["answer", "unreadable", "lost", "unreadable, in doubt"],
)
def test_an_identifier_is_stored_only_beside_a_body_to_read_again(
    reading: CallOutcome, *, of_lookup: bool, of_api_call: bool
) -> None:
    """The effect of an API call in doubt is unknown whatever its body says."""
    for lookup_id, stores in ((7, of_lookup), (None, of_api_call)):
        made = replace(_reserved(), lookup_id=lookup_id)
        kept = outcome_of(made, reading, ended=None, sent_at=1, now=2)
        assert kept.asked == (made.asked if stores else "")


def _reserved() -> LookupTask:
    granted = Reservation(ReservationStatus.GRANTED, 1, 1, reserved_micro=PRICE)
    return replace(task(3), grant=granted)
