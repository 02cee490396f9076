"""Disputed costs on each database: one call at a time, what balances say, what an invoice says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nightscreen.journal import Journal
from nightscreen.journal.actor import Actor
from nightscreen.journal.settling import confirm_invoice, disputed_calls, settle_call
from nightscreen.schemas.calls import (
    CallState,
    Caps,
    DisputedCosts,
    Reservation,
    ReservationStatus,
    ReserveRequest,
)
from nightscreen.schemas.checks import Outcome
from nightscreen.schemas.clock import MICROS
from nightscreen.schemas.errors import InputError, UsageError
from tests.journal.conftest import PRICE, Place, ended, reserve

AT_DESK = frozenset({"money", "settle"})
ODD = 2_500_000 * MICROS
WALLET = 9_000_000 * MICROS
CAPS = Caps(run_micro=200 * PRICE, price_limits=(("karma", 20 * PRICE),))


def settle(
    journal: Journal,
    pair: tuple[ReserveRequest, Reservation],
    cost: int,
    balance: int | None,
    *,
    odd: bool = False,
) -> DisputedCosts | None:
    outcome = replace(
        ended(pair, cost=cost),
        outcome=Outcome.LISTED.value,
        balance_micro=balance,
        named_micro=cost if odd else None,
        sent_at=pair[1].intent_at,
        settled_at=journal.clock(),
    )
    return journal.calls.settle("run-1", [outcome])


def spent(journal: Journal) -> tuple[int, int]:
    """Return what a run spent, and what the caps count of it."""
    found = journal.money.of_run("run-1")
    return found.spent_micro, found.bound_micro


def test_a_cost_is_open_until_a_later_balance_contradicts_it(place: Place) -> None:
    """Meanwhile there is one call at a time over all processes, under the cap all the same."""
    journal, other = place.open(), place.open()
    settle(journal, reserve(journal, 1, caps=CAPS)[0], PRICE, WALLET)
    found = settle(journal, reserve(journal, 2, caps=CAPS)[0], ODD, None, odd=True)
    assert found == DisputedCosts(frozenset({"karma"}))
    assert spent(journal) == (PRICE + ODD, 2 * PRICE)
    first = reserve(journal, 3, 4, caps=CAPS)
    kinds = [grant.kind for _, grant in (*first, *reserve(other, 5, caps=CAPS))]
    assert kinds == [ReservationStatus.GRANTED, *[ReservationStatus.BUSY] * 2]
    found = settle(journal, first[0], PRICE, WALLET - 2 * PRICE)
    assert found is not None
    assert (found.checks, len(found.disproved)) == (frozenset(), 1)
    assert spent(other) == (3 * PRICE, 3 * PRICE)
    assert all(grant.call_id for _, grant in reserve(other, 5, 6, 7, caps=CAPS))


def test_a_cost_that_a_later_balance_confirms_counts_under_caps(journal: Journal) -> None:
    """Its own balance alone confirms nothing: both may be wrong together."""
    settle(journal, reserve(journal, 1, caps=CAPS)[0], PRICE, WALLET)
    settle(journal, reserve(journal, 2, caps=CAPS)[0], ODD, WALLET - ODD, odd=True)
    assert spent(journal) == (PRICE + ODD, 2 * PRICE)
    settle(journal, reserve(journal, 3, caps=CAPS)[0], PRICE, WALLET - ODD - PRICE)
    assert spent(journal) == (2 * PRICE + ODD, 2 * PRICE + ODD)
    assert reserve(journal, 4, caps=CAPS)[0][1].kind is ReservationStatus.UNAFFORDABLE


def test_a_call_in_doubt_is_settled_by_two_people(journal: Journal) -> None:
    """Until the second has confirmed it nothing changes; the figure that was seen is meant."""
    pair = reserve(journal, 1)[0]
    journal.calls.settle("run-1", [ended(pair, CallState.IN_DOUBT, cost=None)])
    call = pair[1].call_id
    settle_call(journal, Actor("Ada Obi", AT_DESK), call, 0)
    assert spent(journal) == (0, PRICE)
    for seen, by in (("0.00", "ada  OBI"), ("1.00", "Bem")):
        with pytest.raises(UsageError):
            confirm_invoice(journal, Actor(by, AT_DESK), call, seen)
    confirm_invoice(journal, Actor("Bem", AT_DESK), call, "0.00")
    assert spent(journal) == (0, 0)
    assert journal.runs.in_doubt() == []
    (found,) = disputed_calls(journal)
    assert (found.named_micro, found.before_micro, found.invoice_micro) == (None, None, 0)
    assert (found.entered_by, found.confirmed_by) == ("Ada Obi", "Bem")
    with pytest.raises(InputError):
        confirm_invoice(journal, Actor("Bem", AT_DESK), call, "0.00")
