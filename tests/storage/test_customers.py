"""Customers' states in the journal: found, replaced, remembered as they were, on both databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nightscreen.journal.customers import (
    Customers,
    StateWrite,
)
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


def test_a_state_does_not_open_as_another_customers(journal: Journal) -> None:
    """A sealed state is bound to its customer."""
    customers = Customers.of(journal)
    at = customers.begin("run-1", BATCH)
    swapped = StateWrite(A, customers.seal(B, state("clear")), differs=False)
    customers.replace("run-1", BATCH, at, [swapped])
    with pytest.raises(JournalDamagedError):
        customers.known([A])
