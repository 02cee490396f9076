"""Answers that could not be read, on both databases: kept, counted, read again, erased."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nightscreen.schemas.calls import CallResult, CallState
from nightscreen.schemas.checks import Outcome
from nightscreen.storage.journal.erasure import ErasedPseudonyms, Erasures
from nightscreen.storage.journal.money import Spent
from nightscreen.storage.journal.rotation import rotate_key
from nightscreen.storage.journal.subject_data import Held
from nightscreen.storage.journal.unreadable import settle_read, unread_answers
from nightscreen.storage.journal.verify import verify_journal
from tests.storage.conftest import PRICE, ended, reserve, subject

if TYPE_CHECKING:
    from nightscreen.schemas.calls import Reservation, ReserveRequest
    from nightscreen.storage.journal import Journal


def unread(pair: tuple[ReserveRequest, Reservation], *, cost: int = PRICE) -> CallResult:
    """Return how a call ended whose answer could not be read."""
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
    (held,) = Held.of(journal).answers([subject(1)])
    assert held.body == b"not\x00yet"
    assert journal.runs.unanswered("run-1") == {("karma", subject(1)): "unreadable"}
    assert verify_journal(journal) == []


def test_what_is_read_after_all_keeps_its_call_its_time_and_its_cost(journal: Journal) -> None:
    """Also after the key was changed; whoever does it twice changes nothing more."""
    pairs = reserve(journal, *range(1, 6))
    journal.calls.settle("run-1", [unread(pair) for pair in pairs])
    before = journal.answers.latest("karma", [subject(1)])[subject(1)]
    rotate_key(journal)
    found = [each for block in unread_answers(journal) for each in block]
    assert {each.asked for each in found} == {"22200000001"}
    assert {each.body for each in found} == {b"not\x00yet"}
    read = [(each, Outcome.LISTED) for each in found if each.subject != subject(5)]
    assert settle_read(journal, read) == 4
    assert settle_read(journal, read) == 0
    after = journal.answers.latest("karma", [subject(1)])[subject(1)]
    assert after._replace(sealed=b"", outcome="") == before._replace(sealed=b"", outcome="")
    assert after.outcome == Outcome.LISTED
    assert journal.answers.body("karma", after) == b"not\x00yet"
    assert {row.outcome: row.answers for row in journal.runs.tallies()} == {
        "listed": 4,
        "unreadable": 1,
    }
    assert journal.runs.unanswered("run-1") == {("karma", subject(5)): "unreadable"}
    assert verify_journal(journal) == []


def test_those_in_a_row_are_counted_since_the_last_record(journal: Journal) -> None:
    """A miss is no record, a free one does not count, and it is not counted for ever."""
    pairs = reserve(journal, *range(1, 9))
    miss = replace(ended(pairs[5], cost=0), outcome="clear")
    group = [unread(pairs[0]), replace(ended(pairs[1]), outcome="listed"), unread(pairs[2])]
    group += [unread(pairs[3], cost=0), unread(pairs[4]), miss, unread(pairs[6])]
    for each in group:
        journal.calls.settle("run-1", [each])
    assert journal.answers.unreadable_run("karma", 9) == 3
    assert journal.answers.unreadable_run("karma", 2) == 2
    assert journal.answers.unreadable_run("ecosystem", 9) == 0


def test_an_erased_person_is_not_read_again(journal: Journal) -> None:
    """Nothing of the answer is left, and every naira still adds up."""
    pairs = reserve(journal, 1, 2)
    journal.calls.settle("run-1", [unread(pair) for pair in pairs])
    found = [each for block in unread_answers(journal) for each in block]
    Erasures.of(journal).erase(ErasedPseudonyms([subject(1)]))
    assert settle_read(journal, [(each, Outcome.LISTED) for each in found]) == 1
    assert list(unread_answers(journal)) == []
    assert verify_journal(journal) == []
