"""Books: opening, closing, what calls in doubt explain, and when drift appeared."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nightscreen.steps.report.books import UNKNOWN, Balance, BookedCalls, Books, explain

PRICE = 10_000_000


class Call(NamedTuple):
    """One call, as a list of them is easily made."""

    sent: int
    settled: int
    lost: bool
    reserved: int
    cost: int | None
    balance: int | None


def booked(calls: list[Call]) -> BookedCalls:
    """Return calls as the books take them."""
    columns = zip(*calls, strict=True)
    sent, settled, lost, *money = (
        np.array([UNKNOWN if each is None else each for each in column], np.int64)
        for column in columns
    )
    return BookedCalls(sent, settled, lost.astype(bool), *money)


@dataclass
class Service:
    """A wallet that is really charged; calls overlap as they do on a wire."""

    wallet: int = 1000 * PRICE
    now: int = 1_000_000
    calls: list[Call] = field(default_factory=list)

    def call(
        self, *, hit: bool = True, lost: bool = False, took: int = 100, told: bool = True
    ) -> None:
        """Make one call alone."""
        sent = self.now
        if hit:
            self.wallet -= PRICE
        self.now += took
        self.calls.append(self._booked(sent, hit=hit, lost=lost, told=told))

    def _booked(self, sent: int, *, hit: bool, lost: bool, told: bool) -> Call:
        cost = None if lost else PRICE * hit
        balance = self.wallet if told and not lost else None
        return Call(sent, self.now, lost, PRICE, cost, balance)

    def crowd(self, number: int, rng: random.Random) -> None:
        """Make calls that overlap; their answers arrive in any order."""
        start = self.now
        for _ in range(number):
            hit, lost = rng.random() < 0.7, rng.random() < 0.2
            sent = start + rng.randrange(50)
            charged = max(self.now, sent) + rng.randrange(1, 5)
            self.now = charged
            self.wallet -= PRICE * hit
            settled = charged + rng.randrange(1, 60)
            cost = None if lost else PRICE * hit
            balance = None if lost else self.wallet
            self.calls.append(Call(sent, settled, lost, PRICE, cost, balance))
        self.now += 100

    def books(self, block: int = 7) -> Books:
        """Return the books of it all, entered in two parts."""
        books, half = Books(block), len(self.calls) // 2
        for part in (self.calls[:half], self.calls[half:]):
            if part:
                books.add(booked(part))
        return books

    def balance(self) -> Balance:
        """Return the balance of it all."""
        return self.books().balance()


def holds(balance: Balance, calls: list[Call]) -> bool:
    """Tell whether opening less cost, explained and drift is closing."""
    if balance.opening_micro is None or balance.closing_micro is None:
        return False
    cost = sum(call.cost or 0 for call in calls)
    gone = cost + balance.explained_in_doubt_micro + balance.drift_micro
    return balance.opening_micro - gone == balance.closing_micro


def test_no_answer_with_a_balance_has_no_books() -> None:
    """Opening and closing are unknown, drift is nothing."""
    service = Service()
    service.call(told=False)
    assert service.balance() == Balance(None, None, None, 0, 0, exact=False)
    assert Books().balance() == Balance(None, None, None, 0, 0, exact=False)


@given(st.integers(0, 10_000), st.integers(0, 40))
def test_bookends_make_books_exact_whatever_happens_between(seed: int, number: int) -> None:
    """Opened and closed by calls alone on the wire, the books are exact and nothing drifts."""
    service = Service()
    service.call()
    service.crowd(number, random.Random(seed))
    service.call(hit=False)
    balance = service.balance()
    assert balance.exact
    assert balance.opening_micro == 1000 * PRICE
    assert balance.closing_micro == service.wallet
    assert balance.drift_micro == 0
    assert balance.drift_since is None
    assert holds(balance, service.calls)


def test_free_calls_without_a_balance_do_not_spoil_the_closing() -> None:
    """A miss that bears no balance and costs nothing may come last."""
    service = Service()
    service.call()
    service.call()
    service.call(hit=False, told=False)
    balance = service.balance()
    assert balance.exact
    assert balance.closing_micro == service.wallet


def test_a_doubt_at_the_end_leaves_the_closing_open() -> None:
    """Where the last call may have been charged, the closing is not exact."""
    service = Service()
    service.call()
    service.call(lost=True)
    assert not service.balance().exact


def test_another_consumer_shows_as_drift_with_its_moment() -> None:
    """What somebody else took is drift, from the first answer that tells of it."""
    service = Service()
    for _ in range(5):
        service.call()
    service.wallet -= 7 * PRICE + 1
    service.now += 1000
    moment = service.now
    for _ in range(5):
        service.call()
    balance = service.balance()
    assert balance.drift_micro == 7 * PRICE + 1
    assert balance.drift_since == moment + 100
    assert balance.exact
    assert holds(balance, service.calls)


@given(st.integers(0, 10_000), st.integers(2, 12))
def test_a_drain_among_doubts_is_told_apart_from_them(seed: int, turns: int) -> None:
    """Lost answers explain only what was lost while they were under way."""
    rng = random.Random(seed)
    service = Service()
    service.call()
    for _ in range(turns):
        service.crowd(8, rng)
        service.now += 10_000
        service.call(hit=False)
    service.wallet -= 100 * PRICE
    service.now += 1000
    for _ in range(turns):
        service.call(hit=False)
        service.now += 10
        service.crowd(8, rng)
    service.call()
    balance = service.balance()
    assert balance.drift_micro == 100 * PRICE
    assert balance.drift_since is not None
    assert holds(balance, service.calls)


def test_a_top_up_is_negative_drift_with_its_moment() -> None:
    """Money paid in shows as negative drift."""
    service = Service()
    for _ in range(3):
        service.call()
    service.wallet += 500 * PRICE
    moment = service.now
    service.call()
    balance = service.balance()
    assert balance.drift_micro == -500 * PRICE
    assert balance.drift_since == moment + 100
    assert holds(balance, service.calls)


@given(st.integers(0, 10_000), st.integers(1, 30))
def test_order_of_entry_does_not_matter(seed: int, number: int) -> None:
    """Blocks may come in any order: the journal's order is that of intents, not of sending."""
    rng = random.Random(seed)
    service = Service()
    service.call()
    service.crowd(number, rng)
    service.call()
    before = service.balance()
    rng.shuffle(service.calls)
    assert service.balance() == before


@given(
    st.integers(0, 400),
    st.dictionaries(st.sampled_from([5, 10, 25, 30]), st.integers(0, 8)),
)
def test_explained_is_the_most_that_whole_calls_account_for(
    lost: int, doubts: dict[int, int]
) -> None:
    """No more than was lost, and no sum of whole calls comes closer."""
    sums = {0}
    for cost, number in doubts.items():
        sums = {base + cost * times for base in sums for times in range(number + 1)}
    assert explain(lost, Counter(doubts)) == max(each for each in sums if each <= lost)


@given(st.integers(0, 10_000), st.integers(0, 60), st.integers(1, 20), st.booleans())
def test_how_many_calls_are_balanced_together_does_not_matter(
    seed: int, number: int, block: int, topped_up: bool
) -> None:
    """One at a time or all at once, with a drain and with money paid in."""
    rng = random.Random(seed)
    service = Service()
    service.call()
    service.crowd(number, rng)
    service.wallet += 100 * PRICE if topped_up else -3 * PRICE
    service.crowd(number, rng)
    service.now += 3600 * 1_000_000
    service.call(hit=False)
    few, all_ = service.books(block), service.books(10_000)
    assert few.balance() == all_.balance()
    assert few.timeline() == all_.timeline()


def test_calls_that_cost_or_take_very_much_are_booked_exactly() -> None:
    """Ten thousand naira and two hours do not fit into four bytes."""
    service = Service()
    service.call()
    for _ in range(3):
        service.wallet -= 10_000 * 1_000_000
        sent, service.now = service.now, service.now + 2 * 3600 * 1_000_000
        cost = 10_000 * 1_000_000
        service.calls.append(
            Call(sent, service.now, lost=False, reserved=cost, cost=cost, balance=service.wallet)
        )
    service.call()
    balance = service.balance()
    assert balance.exact
    assert balance.drift_micro == 0
    assert holds(balance, service.calls)


def test_millions_of_calls_take_bounded_memory() -> None:
    """Twenty-eight bytes a call are kept."""
    service = Service()
    for _ in range(1000):
        service.call()
    assert service.books().columns.bytes == 28_000


def test_closed_books_say_the_same_and_keep_nothing_of_each_call() -> None:
    """What lies between the calls and the report needs their memory."""
    service = Service()
    rng = random.Random(3)
    service.call()
    service.crowd(300, rng)
    service.call()
    books = service.books()
    said = books.balance(), books.timeline()
    books.close()
    assert (books.balance(), books.timeline()) == said
    assert books.columns.bytes == 0
