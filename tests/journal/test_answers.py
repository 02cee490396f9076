"""The latest answers as columns, on both databases, whichever way they are read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from nightscreen.journal import Journal
from nightscreen.journal.answers import StoredAnswer
from nightscreen.schemas.calls import CallResult, CallState, Caps, ReserveRequest
from nightscreen.schemas.checks import Outcome
from nightscreen.schemas.errors import JournalDamagedError
from tests.journal.conftest import PRICE, by_name

NIGHT = 1 << 60


def told(journal: Journal, run: str, check: str, subjects: Sequence[bytes], at: int) -> None:
    """Store an answer to each of some subjects: listed and clear in turn, every third unpriced."""
    asks = [ReserveRequest(check, "bvn", each, PRICE, None, 1) for each in subjects]
    grants = by_name(journal, run, asks, Caps())
    settled = [
        CallResult(
            grant.call_id,
            ask,
            CallState.ANSWERED,
            at + number % 2,
            status=200,
            outcome=(Outcome.LISTED, Outcome.CLEAR)[number % 2].value,
            cost_micro=None if number % 3 == 0 else PRICE + number,
            sent_at=grant.intent_at,
            final=True,
            body=b"{}",
        )
        for number, (ask, grant) in enumerate(zip(asks, grants, strict=True))
    ]
    journal.calls.settle(run, settled)


def test_the_latest_answers_are_the_last_to_come(journal: Journal) -> None:
    """None to what was never asked, and not another check's.

    One whose clock was behind when it came last is the last all the same, and what the run had been
    answered itself stays current.
    """
    random = np.random.default_rng(3)
    known = [random.bytes(15) + bytes([number % 5]) for number in range(240)]
    told(journal, "other", "karma", known[:160], at=100)
    told(journal, "mine", "karma", known[60:180], at=200)
    told(journal, "late", "karma", known[100:140], at=150)
    told(journal, "other", "ecosystem", known[:80], at=300)

    def found(run_id: str, since: int) -> dict[bytes, StoredAnswer]:
        blocks = journal.answers.latest_blocks("karma", wanted, run_id=run_id, since=since)
        every = [answer for block in blocks for answer in block]
        assert [each.subject for each in every] == sorted(each.subject for each in every)
        return {each.subject: each for each in every}

    wanted = sorted(known)
    mine = found("mine", NIGHT)
    assert mine.keys() == {*known[:180]}
    for runs, subjects, at in (
        ("mine", known[60:100] + known[140:180], 200),
        ("late", known[100:140], 150),
        ("other", known[:60], 100),
    ):
        assert {mine[each].run_id for each in subjects} == {runs}
        said = {(mine[each].outcome, mine[each].answered_at - at) for each in subjects}
        assert said == {(Outcome.LISTED.value, 0), (Outcome.CLEAR.value, 1)}
        assert {mine[each].cost_micro is None for each in subjects} == {True, False}
    assert {each for each in mine if mine[each].current} == {*known[60:180]}
    before = journal.answers.position()
    told(journal, "late", "karma", wanted[:3], at=50)
    late = found("nobody", before)
    assert sorted(each for each in late if late[each].current) == wanted[:3]


def test_an_answer_moved_to_another_person_does_not_open(journal: Journal) -> None:
    """Who can write the database gives nobody the answer about somebody else."""
    one, other = (number.to_bytes(16, "big") for number in (1, 2))
    told(journal, "run", "karma", [one, other], NIGHT)
    stored = journal.answers.latest("karma", [one, other])
    moved = stored[one]._replace(sealed=stored[other].sealed)
    assert journal.answers.body("karma", stored[one]) == b"{}"
    with pytest.raises(JournalDamagedError):
        journal.answers.body("karma", moved)
    with pytest.raises(JournalDamagedError):
        journal.answers.body("ecosystem", stored[one])
