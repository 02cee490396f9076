"""Runs and what is read from the journal: lists, outcomes and doubt, also without lock and key."""

from __future__ import annotations

import threading
from dataclasses import replace

from nightscreen.journal.opening import open_read_only
from nightscreen.journal.runs import KILLED
from nightscreen.journal.schema import spend
from nightscreen.schemas.calls import CallResult, CallState
from nightscreen.schemas.clock import MICROS
from tests.begun import begin_run
from tests.journal.conftest import NOON, PRICE, Place, ended, reserve, subject


def test_runs_are_listed_newest_first_killed_ones_included(place: Place) -> None:
    """A run whose process died is killed; a finished one bears its report.

    Begun again it is running anew, with the first instant.
    """
    dead, journal = place.open(), place.open()
    begin_run(dead, "a", batch="book")
    begin_run(journal, "b", batch="other", cap_micro=PRICE)
    begin_run(journal, "c", batch="book")
    journal.runs.finish("b", state="completed", stop_reason=None, report={"x": 1})
    assert journal.runs.held_elsewhere("a")
    assert not journal.runs.held_elsewhere("c")
    dead.close()
    assert [(run.run_id, run.state) for run in journal.runs.newest()] == [
        ("c", "running"),
        ("b", "completed"),
        ("a", KILLED),
    ]
    assert [run.run_id for run in journal.runs.newest(batch="book", limit=1)] == ["c"]
    found = journal.runs.find("b")
    assert found is not None
    assert (found.report, found.cap_micro) == ({"x": 1}, PRICE)
    assert journal.runs.find("z") is None
    assert not journal.runs.held_elsewhere("a")
    journal.runs.finish("b", state="stopped", stop_reason="budget", report={})
    begin_run(journal, "b")
    again = journal.runs.find("b")
    assert again is not None
    assert (again.state, again.stop_reason, again.started_at) == ("running", None, found.started_at)


def test_lookups_without_an_answer_say_why(place: Place) -> None:
    """Doubt outweighs failure, failure outweighs waiting, an answer outweighs all."""
    dead, journal = place.open(), place.open()
    reserve(dead, 9)
    dead.close()
    one, two, three, four, five = reserve(journal, 1, 2, 3, 4, 5)
    final = CallResult(five[1].call_id, five[0], CallState.NOT_CHARGED, NOON, final=True)
    journal.calls.settle(
        "run-1",
        [
            ended(one, CallState.IN_DOUBT),
            ended(two, CallState.NOT_CHARGED),
            ended(three, CallState.IN_DOUBT),
            ended(four),
            final,
        ],
    )
    journal.calls.settle("run-1", [ended(reserve(journal, 3)[0])])
    journal.calls.settle("run-1", [ended(reserve(journal, 1)[0], CallState.NOT_SENT)])
    assert journal.runs.unanswered("run-1") == {
        ("karma", subject(1)): "in_doubt",
        ("karma", subject(2)): "pending",
        ("karma", subject(5)): "failed",
        ("karma", subject(9)): "in_doubt",
    }
    assert [row.call_id for row in journal.runs.in_doubt()] == [1, 2, 4]


def test_readers_do_not_keep_writers_waiting(place: Place) -> None:
    """A long look at one instant goes on while others write, and does not see what they wrote."""
    journal = place.open(busy_timeout_s=3.0)
    reserve(journal, 1)
    with journal.database.snapshot() as connection:
        before = connection.execute(spend.select()).all()
        thread = threading.Thread(target=reserve, args=(journal, 2))
        thread.start()
        thread.join(10)
        assert not thread.is_alive()
        assert connection.execute(spend.select()).all() == before
    assert journal.money.of_run("run-1").calls == 2


def test_a_run_under_way_is_seen_from_outside(place: Place) -> None:
    """Answers, troubles and doubts by check; what is in flight is not in doubt."""
    journal = place.open()
    begin_run(journal, "run-1")
    answered, lost, _flying, newer = reserve(journal, 1, 2, 3, 4)
    journal.calls.settle("run-1", [ended(newer), ended(lost, CallState.IN_DOUBT)])
    late = replace(ended(answered), settled_at=journal.clock() + MICROS)
    journal.calls.settle("run-1", [late])
    look = open_read_only(place.settings())
    assert look is not None
    with look:
        assert look.key_trouble is None
        found = look.runs.find("run-1")
        assert found is not None
        assert (found.state, found.holder) == ("running", journal.holders.name)
        pulse = look.runs.activity("run-1", alive=True)
        assert (pulse.answered, pulse.troubles) == ({"karma": 2}, {"karma": {"timeout": 1}})
        assert pulse.last_answer_at == late.settled_at
        assert (pulse.in_doubt, pulse.in_doubt_micro) == (1, PRICE)
        assert look.runs.activity("run-1", alive=False).in_doubt == 2
