"""The latest answers as columns, on both databases, whichever way they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from nightscreen.journal.answers import NONE, OUTCOMES, Latest
from nightscreen.schemas.calls import CallResult, CallState, Caps, ReserveRequest
from nightscreen.schemas.checks import Outcome
from nightscreen.schemas.errors import JournalDamagedError
from tests.storage.conftest import PRICE, by_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nightscreen.journal import Journal

NIGHT = 1 << 60
BLOCK = 500


def told(journal: Journal, run: str, check: str, subjects: Sequence[bytes], at: int) -> None:
    """Store an answer to each of some subjects: listed and clear in turn, every third unpriced."""
    for start in range(BLOCK, len(subjects), BLOCK):
        told(journal, run, check, subjects[start : start + BLOCK], at)
    subjects = subjects[:BLOCK]
    asks = [ReserveRequest(check, "bvn", each, PRICE, None, 1) for each in subjects]
    grants = by_name(journal, run, asks, Caps())
    settled = [
        CallResult(
            grant.call_id,
            ask,
            grant.intent_at,
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


def as_rows(
    journal: Journal, subjects: Sequence[bytes], asked: Sequence[bytes] = ()
) -> list[tuple[object, ...]]:
    """Return the same answers read one by one, as `Latest` has them; `asked` are the run's own."""
    current = set(asked)
    stored = journal.answers.latest("karma", subjects, bodies=False)
    words = [each.value for each in OUTCOMES]
    found: list[tuple[object, ...]] = []
    for each in subjects:
        answer = stored.get(each)
        if answer is None:
            found.append((NONE, 0, 0, False, NONE, False))
            continue
        cost = NONE if answer.cost_micro is None else answer.cost_micro
        outcome, own = words.index(answer.outcome), answer.run_id == "mine"
        row = (outcome, answer.answered_at, answer.call_id, own, cost, each in current)
        found.append(row)
    return found


def as_columns(latest: Latest) -> list[tuple[object, ...]]:
    """Return columns as rows."""
    return list(zip(*(getattr(latest, name).tolist() for name in Latest.names()), strict=True))


def test_columns_say_what_rows_say(journal: Journal) -> None:
    """Of several answers the last to come; none to what was never asked; another check's are not.

    One whose clock was behind when it came last is the last all the same, and what the run had been
    answered itself stays current.
    """
    random = np.random.default_rng(3)
    known = [random.bytes(15) + bytes([number % 5]) for number in range(1_200)]
    told(journal, "other", "karma", known[:800], at=100)
    told(journal, "mine", "karma", known[300:900], at=200)
    told(journal, "late", "karma", known[500:700], at=150)
    told(journal, "other", "ecosystem", known[:400], at=300)
    wanted = sorted(known)
    found = journal.answers.latest_columns("karma", b"".join(wanted), "mine", NIGHT)
    assert as_columns(found) == as_rows(journal, wanted, asked=known[300:900])
    before = journal.answers.position()
    told(journal, "late", "karma", wanted[:3], at=50)
    since = journal.answers.latest_columns("karma", b"".join(wanted), "nobody", before)
    assert np.flatnonzero(since.current).tolist() == [0, 1, 2]


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
