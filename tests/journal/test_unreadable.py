"""Answers that could not be read, on both databases: kept, counted, read again, erased."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nightscreen.journal import Journal
from nightscreen.journal.actor import Actor
from nightscreen.journal.answers import Doubts, Since
from nightscreen.journal.erasure import Erasures
from nightscreen.journal.keyset import rotate_key
from nightscreen.journal.money import Spent
from nightscreen.journal.schema import ErasedPseudonyms
from nightscreen.journal.settling import settle_call
from nightscreen.schemas.calls import CallResult, CallState, Reservation, ReserveRequest
from nightscreen.schemas.checks import Outcome
from tests.journal.conftest import PRICE, ended, reserve, subject


def unread(pair: tuple[ReserveRequest, Reservation], *, cost: int = PRICE) -> CallResult:
    return replace(
        ended(pair, cost=cost, body=b"not\x00yet"),
        state=CallState.UNREADABLE,
        outcome="unreadable",
        trouble="unreadable",
        asked="22200000001",
    )


def test_an_unreadable_answer_is_settled_at_its_cost(journal: Journal) -> None:
    """No reservation is left, the body opens as it came, and the run knows of it."""
    pairs = reserve(journal, 1, 2)
    journal.calls.settle("run-1", [unread(pairs[0]), ended(pairs[1])])
    assert journal.money.of_run("run-1") == Spent(2 * PRICE, 0, 2)
    stored = journal.answers.latest("karma", [subject(1)])[subject(1)]
    assert stored.outcome == Outcome.UNREADABLE
    assert journal.answers.body("karma", stored) == b"not\x00yet"
    (held,) = journal.answers.about([subject(1)])
    assert held.body == b"not\x00yet"
    assert journal.runs.unanswered("run-1") == {("karma", subject(1)): "unreadable"}


def test_what_is_read_after_all_keeps_its_call_its_time_and_its_cost(journal: Journal) -> None:
    """Also after the key was changed; whoever does it twice changes nothing more."""
    pairs = reserve(journal, *range(1, 6))
    journal.calls.settle("run-1", [unread(pair) for pair in pairs])
    before = journal.answers.latest("karma", [subject(1)])[subject(1)]
    rotate_key(journal)
    found = [each for block in journal.answers.unread() for each in block]
    assert {each.asked for each in found} == {"22200000001"}
    assert {each.body for each in found} == {b"not\x00yet"}
    read = [(each, Outcome.LISTED, None) for each in found if each.subject != subject(5)]
    assert journal.answers.settle(read) == 4
    assert journal.answers.settle(read) == 0
    after = journal.answers.latest("karma", [subject(1)])[subject(1)]
    assert after._replace(sealed=b"", outcome="") == before._replace(sealed=b"", outcome="")
    assert after.outcome == Outcome.LISTED
    assert journal.answers.body("karma", after) == b"not\x00yet"
    assert journal.runs.charges_of_late() == {("karma", "bvn"): (5, 4)}
    assert journal.runs.unanswered("run-1") == {("karma", subject(5)): "unreadable"}


def lost(
    pair: tuple[ReserveRequest, Reservation], trouble: str = "cut", *, at: int = 0
) -> CallResult:
    """Return how a call ended that may have been charged; what came of it is kept."""
    body = {"body": b"<html>", "asked": "22200000001"} if trouble == "unreadable" else {}
    settled = ended(pair, cost=None)
    change: dict[str, Any] = {
        "state": CallState.IN_DOUBT,
        "outcome": None,
        "trouble": trouble,
        "body": b"",
        **body,
    }
    return replace(settled, settled_at=at or settled.settled_at, **change)


def test_a_kept_body_of_a_call_in_doubt_may_be_read_after_all(journal: Journal) -> None:
    """Its reservation is given back where the corrected table knows the cost."""
    for number, cost, reserved in ((1, 0, 0), (2, PRICE, 0), (3, None, PRICE)):
        run = f"run-{number}"
        (pair,) = reserve(journal, number, run=run)
        journal.calls.settle(run, [lost(pair, "unreadable")])
        (found,) = [each for block in journal.answers.unread() for each in block]
        assert (found.body, found.asked, found.cost_micro) == (b"<html>", "22200000001", None)
        assert journal.answers.settle([(found, Outcome.LISTED, cost)]) == 1
        assert journal.answers.settle([(found, Outcome.LISTED, cost)]) == 0
        read = journal.answers.latest("karma", [subject(number)])
        assert read[subject(number)].outcome == Outcome.LISTED
        assert journal.money.of_run(run) == Spent(cost or 0, reserved, 1)


def test_what_an_invoice_settled_is_not_counted_again_where_it_can_be_read(
    journal: Journal,
) -> None:
    """The invoice's figure stays; the body that is read after all adds nothing to it."""
    (pair,) = reserve(journal, 1)
    journal.calls.settle("run-1", [lost(pair, "unreadable")])
    ((found,),) = journal.answers.unread()
    settle_call(journal, Actor("Ada"), found.call_id, PRICE // 2)
    assert journal.answers.settle([(found, Outcome.LISTED, PRICE)]) == 1
    assert journal.money.of_run("run-1") == Spent(PRICE // 2, 0, 1)


def test_calls_in_doubt_are_counted_by_what_came_and_when(journal: Journal) -> None:
    """Of another run within their age, of the run's own session always, of an outage there only."""
    pairs = reserve(journal, 1, 2, 3, 4)
    journal.calls.settle(
        "run-1",
        [
            lost(pairs[0], at=100),
            lost(pairs[1], "unreadable", at=100),
            unread(pairs[2]),
            replace(lost(pairs[3]), trouble="refused", state=CallState.NOT_CHARGED),
        ],
    )

    def counted(run_id: str, lost: int, unread: int, session: int) -> dict[bytes, Doubts]:
        return journal.answers.doubts("karma", run_id, Since(lost, unread, session))

    assert counted("run-2", 50, 50, 0) == {
        subject(1): Doubts(1, 0, 0),
        subject(2): Doubts(1, 1, 1),
    }
    assert counted("run-2", 150, 150, 0)[subject(2)] == Doubts(0, 0, 1)
    assert counted("run-2", 150, 50, 0)[subject(2)] == Doubts(0, 1, 1)
    assert counted("run-1", 150, 150, 100)[subject(2)] == Doubts(1, 1, 1)
    journal.answers.mark_outage("run-1", "karma", 150)
    assert counted("run-2", 50, 50, 0)[subject(2)] == Doubts(1, 1, 1)
    journal.answers.mark_outage("run-1", "karma", 0)
    assert counted("run-2", 50, 50, 0) == {
        subject(1): Doubts(1, 0, 0),
        subject(2): Doubts(0, 0, 0),
    }
    assert counted("run-1", 150, 150, 100)[subject(2)] == Doubts(1, 0, 0)


def test_an_erased_person_is_not_read_again(journal: Journal) -> None:
    """Nothing of the answer is left, and every naira still adds up."""
    pairs = reserve(journal, 1, 2)
    journal.calls.settle("run-1", [unread(pair) for pair in pairs])
    found = [each for block in journal.answers.unread() for each in block]
    Erasures(journal).erase(ErasedPseudonyms([subject(1)]))
    assert journal.answers.settle([(each, Outcome.LISTED, None) for each in found]) == 1
    assert list(journal.answers.unread()) == []
