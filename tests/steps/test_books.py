"""Books: opening, closing, what calls in doubt explain, and when drift appeared."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from steps.report.books import Balance, BookedCall, Books, explain

PRICE = 10_000_000


@dataclass
class Service:
    """A wallet that is really charged; calls overlap as they do on a wire."""

    wallet: int = 1000 * PRICE
    now: int = 1_000_000
    calls: list[BookedCall] = field(default_factory=list)

    def call(
        self, *, hit: bool = True, lost: bool = False, took: int = 100, told: bool = True
    ) -> None:
        """Make one call alone."""
        sent = self.now
        if hit:
            self.wallet -= PRICE
        self.now += took
        self.calls.append(self._booked(sent, hit=hit, lost=lost, told=told))

    def _booked(self, sent: int, *, hit: bool, lost: bool, told: bool) -> BookedCall:
        state = "in_doubt" if lost else "answered"
        cost = None if lost else PRICE * hit
        balance = self.wallet if told and not lost else None
        return BookedCall(sent, self.now, state, PRICE, cost, balance)

    def crowd(self, number: int, rng: random.Random) -> None:
        """Make calls that overlap; their answers arrive in any order."""
        start = self.now
        for _ in range(number):
            hit, lost = rng.random() < 0.7, rng.random() < 0.2
            sent = start + rng.randrange(50)
            charged = max(self.now, sent) + rng.randrange(1, 5)
            self.now = charged
            self.wallet -= PRICE * hit
            state = "in_doubt" if lost else "answered"
            settled = charged + rng.randrange(1, 60)
            cost = None if lost else PRICE * hit
            self.calls.append(
                BookedCall(sent, settled, state, PRICE, cost, None if lost else self.wallet)
            )
        self.now += 100

    def balance(self) -> Balance:
        """Return the books of it all."""
        books = Books()
        books.add(self.calls)
        return books.balance()


def holds(balance: Balance, calls: list[BookedCall]) -> bool:
    """Tell whether opening less cost, explained and drift is closing."""
    if balance.opening_micro is None or balance.closing_micro is None:
        return False
    cost = sum(call.cost_micro or 0 for call in calls)
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


def test_millions_of_calls_take_bounded_memory() -> None:
    """Some forty bytes a call are kept."""
    service = Service()
    for _ in range(1000):
        service.call()
    books = Books()
    books.add(service.calls)
    kept = (books._sent, books._settled, books._cost, books._doubt, books._balance)
    assert sum(len(column) * column.itemsize for column in kept) == 40_000


def test_closed_books_say_the_same_and_keep_nothing_of_each_call() -> None:
    """What lies between the calls and the report needs their memory."""
    service = Service()
    rng = random.Random(3)
    service.call()
    service.crowd(300, rng)
    service.call()
    books = Books()
    books.add(service.calls)
    said = books.balance(), books.timeline()
    books.close()
    assert (books.balance(), books.timeline()) == said
    assert not any(
        map(len, (books._sent, books._settled, books._cost, books._doubt, books._balance))
    )
