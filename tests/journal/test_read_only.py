"""Looking into a journal on each database: no lock, no key, no change."""

from __future__ import annotations

from dataclasses import replace

from nightscreen.journal.opening import open_read_only
from nightscreen.schemas.calls import CallState
from nightscreen.schemas.clock import MICROS
from tests.begun import begin_run
from tests.journal.conftest import PRICE, Place, ended, reserve

RUN = "run-1"


def test_a_run_under_way_is_seen_from_outside(place: Place) -> None:
    """Answers, troubles and doubts by check; what is in flight is not in doubt."""
    journal = place.open()
    begin_run(journal, RUN)
    answered, lost, _flying, newer = reserve(journal, 1, 2, 3, 4)
    journal.calls.settle(RUN, [ended(newer), ended(lost, CallState.IN_DOUBT)])
    late = replace(ended(answered), settled_at=journal.clock() + MICROS)
    journal.calls.settle(RUN, [late])
    look = open_read_only(place.settings())
    assert look is not None
    with look:
        assert look.key_trouble is None
        found = look.runs.find(RUN)
        assert found is not None
        assert (found.state, found.holder) == ("running", journal.holders.name)
        pulse = look.runs.activity(RUN, alive=True)
        assert (pulse.answered, pulse.troubles) == ({"karma": 2}, {"karma": {"timeout": 1}})
        assert pulse.last_answer_at == late.settled_at
        assert (pulse.in_doubt, pulse.in_doubt_micro) == (1, PRICE)
        assert look.runs.activity(RUN, alive=False).in_doubt == 2
