"""Reconciliation: opening, closing, what calls in doubt explain, and when drift appeared."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from nightscreen.files.frame import Frame, read_queries
from nightscreen.report.calls import QUERIES, WALLET_CALLS, Balance, balance_of
from tests.how_many import examples

PRICE = 10_000_000


class Call(NamedTuple):
    """One call, as a list of them is easily made."""

    sent: int
    settled: int
    lost: bool
    reserved: int
    cost: int | None
    balance: int | None


def entered(calls: list[Call]) -> pa.Table:
    """Return calls as the queries take them."""
    rows = [
        {
            "check_number": 0,
            "attempt": 1,
            "sent": each.sent,
            "settled": max(each.sent + 1, each.settled),
            "cost": each.cost or 0,
            "doubt": each.reserved if each.lost or each.cost is None else 0,
            "balance": each.balance,
        }
        for each in calls
    ]
    return pa.Table.from_pylist(rows, WALLET_CALLS)


@dataclass
class Service:
    """A wallet that is really charged; calls overlap as they do on a wire."""

    wallet: int = 1000 * PRICE
    now: int = 1_000_000
    calls: list[Call] = field(default_factory=list)

    def call(
        self,
        price: int = PRICE,
        *,
        lost: bool = False,
        told: bool = True,
        cost_told: bool = True,
        lags: bool = False,
    ) -> None:
        sent, before = self.now, self.wallet
        self.wallet -= price
        self.now += 100
        cost = price if cost_told and not lost else None
        balance = (before if lags else self.wallet) if told else None
        self.calls.append(Call(sent, self.now, lost, max(PRICE, price), cost, balance))

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

    def balance(self) -> Balance:
        with Frame(read_queries(QUERIES)) as frame:
            frame.make("calls", entered(self.calls))
            return balance_of(frame)


def holds(balance: Balance, calls: list[Call]) -> bool:
    """Return whether opening less cost, explained and drift is closing."""
    if balance.opening_micro is None or balance.closing_micro is None:
        return False
    cost = sum(call.cost or 0 for call in calls)
    gone = cost + balance.explained_in_doubt_micro + balance.drift_micro
    return balance.opening_micro - gone == balance.closing_micro


def test_without_a_balance_there_is_nothing_to_reconcile() -> None:
    """Opening and closing are unknown, drift is nothing."""
    service = Service()
    service.call(told=False)
    assert service.balance() == Service().balance() == Balance()


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 40))
def test_a_run_opened_and_closed_alone_is_exact_whatever_happens_between(
    seed: int, number: int
) -> None:
    """Ends alone on the wire that other balances bear out are exact, and nothing drifts."""
    service = Service()
    service.call()
    service.call(0)
    service.crowd(number, random.Random(seed))
    service.now += 10_000
    service.call()
    service.call(0)
    balance = service.balance()
    assert balance.exact
    assert balance.opening_micro == 1000 * PRICE
    assert balance.closing_micro == service.wallet
    assert balance.drift_micro == 0
    assert balance.drift_since is None
    assert holds(balance, service.calls)


def test_another_consumer_shows_as_drift_with_its_moment() -> None:
    """What somebody else took is drift, from the first answer that tells of it."""
    service = Service()
    for price in range(5):
        service.call(price * PRICE)
    service.wallet -= 7 * PRICE + 1
    service.now += 1000
    moment = service.now
    for price in range(5):
        service.call(price * PRICE)
    balance = service.balance()
    assert balance.drift_micro == 7 * PRICE + 1
    assert balance.drift_since == moment + 100
    assert balance.exact
    assert holds(balance, service.calls)


def test_a_call_in_doubt_accounts_for_less_than_its_worst_cost() -> None:
    """It is reserved at the highest price known; what the service took may be less."""
    service = Service()
    service.call(0)
    service.wallet -= PRICE // 3
    service.calls.append(Call(service.now, service.now + 9, True, PRICE, None, None))  # noqa: FBT003 - a column
    service.now += 100
    service.call(0)
    balance = service.balance()
    assert (balance.explained_in_doubt_micro, balance.drift_micro) == (PRICE // 3, 0)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, PRICE, PRICE, 5 * PRICE // 2]),
            st.sampled_from(["answered", "answered", "lags", "lost", "untold", "502"]),
            st.sampled_from([0, 0, 0, 0, 7 * PRICE + 1, -900 * PRICE + 3]),
        ),
        max_size=30,
    )
)
def test_exact_is_said_only_where_both_ends_are_the_wallets(
    night: list[tuple[int, str, int]],
) -> None:
    """Lost answers, lagging balances, costs not told, charged errors, other consumers, top-ups."""
    service = Service()
    opening = service.wallet
    for place, (price, fault, taken) in enumerate(night):
        service.wallet -= taken if place else 0
        service.call(
            price,
            lost=fault in {"lost", "502"},
            told=fault not in {"lost", "untold"},
            cost_told=fault != "untold",
            lags=fault == "lags",
        )
    balance = service.balance()
    if balance.opening_micro is not None:
        assert holds(balance, service.calls)
    if balance.exact:
        assert (balance.opening_micro, balance.closing_micro) == (opening, service.wallet)
