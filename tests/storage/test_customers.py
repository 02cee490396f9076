"""Customers' states in the journal: found, replaced, remembered as they were, on both databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nightscreen.journal.customers import (
    BatchMembership,
    Customers,
    StateWrite,
)
from nightscreen.journal.reviews import Reviews
from nightscreen.schemas.contests import Review
from nightscreen.schemas.decisions import CheckState, State
from nightscreen.schemas.errors import JournalDamagedError

if TYPE_CHECKING:
    from nightscreen.journal import Journal

BATCH = "borrowers"
A, B = b"a" * 16, b"b" * 16


def state(word: str, at: int = 1) -> State:
    """Return a state of one check."""
    return {"karma": CheckState(at, "run-1", {"karma_status": word})}


def keep(customers: Customers, run_id: str, word: str, *who: bytes, differs: bool = True) -> int:
    """Keep a state for some customers under a run; return its instant."""
    at = customers.begin(run_id, BATCH)
    writes = [StateWrite(each, customers.seal(each, state(word)), differs) for each in who]
    customers.replace(run_id, BATCH, at, writes)
    return at


def words(customers: Customers, instant: int | None = None) -> dict[bytes, str]:
    """Return each customer's word, now or before an instant."""
    found = customers.known([A, B]) if instant is None else customers.known_before([A, B], instant)
    return {who: each.state["karma"].values["karma_status"] for who, each in found.items()}


def test_a_state_is_what_it_was_before_any_run(journal: Journal) -> None:
    """Every earlier state can be had again by the instant of the run that replaced it."""
    customers = Customers.of(journal)
    first = keep(customers, "run-1", "clear", A)
    second = keep(customers, "run-2", "listed", A, B)
    third = keep(customers, "run-3", "clear", A)
    assert words(customers) == {A: "clear", B: "listed"}
    assert words(customers, third) == {A: "listed", B: "listed"}
    assert words(customers, second) == {A: "clear"}
    assert words(customers, first) == {}


def test_who_was_told_gone_is_left_out_by_later_runs_only(journal: Journal) -> None:
    """The run that told it sees the customer still, so that it tells the same again."""
    customers = Customers.of(journal)
    keep(customers, "run-1", "clear", A, B)
    customers.mark_gone("run-2", [B])
    standing = {run: customers.members(BATCH, run).standing.tolist() for run in ("run-2", "run-3")}
    assert standing == {
        "run-2": [BatchMembership.PRESENT, BatchMembership.GONE_NOW],
        "run-3": [BatchMembership.PRESENT, BatchMembership.GONE],
    }
    keep(customers, "run-4", "clear", B)
    assert customers.known([B])[B].gone_run_id is None


def test_a_state_does_not_open_as_another_customers(journal: Journal) -> None:
    """A sealed state is bound to its customer."""
    customers = Customers.of(journal)
    at = customers.begin("run-1", BATCH)
    swapped = StateWrite(A, customers.seal(B, state("clear")), differs=False)
    customers.replace("run-1", BATCH, at, [swapped])
    with pytest.raises(JournalDamagedError):
        customers.known([A])


def review(customer: bytes, decision: str, reviewed_at: int) -> Review:
    """Return a review that stands for a while."""
    return Review(
        customer=customer,
        batch=BATCH,
        run_id="run-1",
        listed="review",
        decision=decision,
        reviewer="Ngozi",
        note="seen",
        reviewed_at=reviewed_at,
        until=reviewed_at + 100,
        evidence=b"12345678",
    )


def test_the_latest_review_counts_until_it_ends(journal: Journal) -> None:
    """Of several the newest, and none after its end."""
    reviews = Reviews.of(journal)
    reviews.add([review(A, "decline", 20), review(A, "approve", 10), review(B, "approve", 5)])
    assert {k: v.decision for k, v in reviews.active(BATCH, 50).items()} == {
        A: "decline",
        B: "approve",
    }
    assert set(reviews.active(BATCH, 110)) == {A}
    assert reviews.active("other", 50) == {}
    assert [each.reviewer for each in reviews.of_customer(A)] == ["Ngozi", "Ngozi"]
