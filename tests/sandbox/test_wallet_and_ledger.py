"""Money and memory: the wallet is really charged, and the ledger tells it all."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from http.client import HTTPConnection
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from nightscreen.sandbox import test_identifiers
from nightscreen.sandbox.ledger import Entry, Ledger, PriceList, Wallet, micros_of, naira_text
from nightscreen.sandbox.process import SandboxProcess

if TYPE_CHECKING:
    from tests.sandbox.conftest import Caller

LISTED = test_identifiers.by_word("listed").bvn


@pytest.mark.parametrize("text", ["0", "10", "12.5", "0.000001", "1000000"])
def test_money_survives_both_ways(text: str) -> None:
    """Decimal text becomes micro-naira and the same text again."""
    assert naira_text(micros_of(text)) == text
    assert micros_of(Decimal(text)) == micros_of(text)


@pytest.mark.parametrize(
    "value", ["ten", "", "NaN", "Infinity", "1e999999999", "0.0000001", True, None, 1.5]
)
def test_what_is_no_amount_is_refused(value: object) -> None:
    """Words, nothing, binary fractions and amounts finer than a millionth are no money."""
    with pytest.raises(ValueError, match="naira"):
        micros_of(value)


def test_wallet_runs_dry_at_its_call(caller: Caller) -> None:
    """The k-th call finds the wallet empty; after a top-up calls are answered again."""
    caller.sandbox.post("/_sandbox/wallet", {"dry_at_call": 3})
    assert [caller.karma(LISTED).status for _ in range(4)] == [200, 200, 402, 402]
    refusal = caller.karma(LISTED).json
    assert refusal == {
        "status": "error",
        "message": "Insufficient balance",
        "data": None,
        "meta": {"balance": 0},
    }
    caller.sandbox.post("/_sandbox/wallet", {"top_up": "25.5"})
    assert caller.karma(LISTED).json["meta"] == {"cost": 10, "balance": 15.5}
    assert caller.ecosystem(LISTED).status == 402


def test_another_consumer_draws_on_the_wallet(caller: Caller) -> None:
    """An amount goes every so many calls; the wallet's sum stays right."""
    caller.sandbox.post("/_sandbox/wallet", {"drain_every": {"calls": 2, "amount": 7}})
    for _ in range(4):
        caller.karma(LISTED)
    wallet = caller.sandbox.totals()["wallet"]
    assert wallet["drained"] == "14"
    assert wallet["balance"] == "999946"


def test_opening_and_movements_make_the_balance(caller: Caller) -> None:
    """Opening + topped up - drained - charged = balance, whatever was done."""
    caller.sandbox.post("/_sandbox/wallet", {"balance": "500.25"})
    caller.karma(LISTED)
    caller.sandbox.post("/_sandbox/wallet", {"top_up": 9})
    shown = caller.sandbox.totals()
    part = {name: Decimal(value or 0) for name, value in shown["wallet"].items()}
    charged = Decimal(shown["totals"]["charged"])
    assert part["balance"] == Decimal("499.25")
    assert part["opening"] + part["topped_up"] - part["drained"] - charged == part["balance"]


def test_price_changes_at_a_later_call(caller: Caller) -> None:
    """A planned price holds from its call on; misses count as calls too."""
    caller.sandbox.post("/_sandbox/prices", {"karma": {"price": "12.5", "at_call": 3}})
    costs = [caller.karma(LISTED).json["meta"]["cost"] for _ in range(4)]
    assert costs == [10, 10, 12.5, 12.5]


def test_charge_never_goes_below_nothing() -> None:
    """A wallet refuses to be charged more than it holds."""
    wallet = Wallet(5)
    with pytest.raises(ValueError, match="too low"):
        wallet.charge(6)


def test_planned_prices_apply_in_order() -> None:
    """Of several changes that are due, the latest counts."""
    prices = PriceList()
    prices.plan("karma", 5, 3)
    prices.plan("karma", 2, 1)
    assert [prices.price("karma", call) for call in (2, 4, 7)] == [1, 1, 3]


def test_ledger_tells_requests_charges_and_attempts(caller: Caller) -> None:
    """Every call is an entry; totals and operations agree with the entries."""
    caller.karma(LISTED)
    caller.karma(LISTED)
    caller.ecosystem("22999000005")
    ledger = caller.sandbox.ledger()
    assert [one["seq"] for one in ledger["entries"]] == [1, 2, 3]
    assert [one["attempt"] for one in ledger["entries"]] == [1, 2, 1]
    assert [one["outcome"] for one in ledger["entries"]] == ["listed", "listed", "not_found"]
    assert ledger["totals"]["charged"] == "20"
    assert ledger["totals"]["repeated_charges"] == 1
    assert ledger["totals"]["by_operation"]["karma"] == {
        "requests": 2,
        "charges": 2,
        "charged": "20",
    }


def test_ledger_is_read_in_parts(caller: Caller) -> None:
    """Reading goes on after a sequence number, by operation, and in pages."""
    for _ in range(3):
        caller.karma(LISTED)
        caller.ecosystem(LISTED)
    sandbox = caller.sandbox
    assert [one["seq"] for one in sandbox.ledger(since=4)["entries"]] == [5, 6]
    assert [one["seq"] for one in sandbox.ledger(operation="karma")["entries"]] == [1, 3, 5]
    page = sandbox.get("/_sandbox/ledger?limit=4")
    assert (len(page["entries"]), page["next"], page["more"]) == (4, 4, True)
    assert sandbox.get("/_sandbox/ledger?totals=1")["entries"] == []


def test_bounded_ledger_forgets_entries_but_not_totals() -> None:
    """With a limit the oldest entries go, numbers and sums stay."""
    ledger = Ledger(limit=2)
    for number in range(5):
        ledger.append(
            Entry(
                0.0,
                "karma",
                str(number),
                200,
                "listed",
                "",
                10,
                0,
                "sent",
                1,
                authorized=True,
                in_flight=1,
            )
        )
    found, following = ledger.read()
    assert [one["seq"] for one in found] == [4, 5]
    assert following == 5
    assert ledger.totals_json()["charges"] == 5


def test_calls_in_flight_are_counted(caller: Caller) -> None:
    """Peaks are kept for each operation and for all."""
    caller.sandbox.post("/_sandbox/latency", {"kind": "fixed", "ms": 150})
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: caller.karma(LISTED), range(6)))
    shown = caller.sandbox.totals()
    assert shown["peak_in_flight"]["karma"] == shown["peak_in_flight"]["all"] == 6
    assert shown["in_flight"]["all"] == 0


def test_caller_who_leaves_is_charged_all_the_same(caller: Caller) -> None:
    """A call whose caller gave up is worked out, charged and marked as abandoned."""
    caller.sandbox.post("/_sandbox/latency", {"kind": "fixed", "ms": 200})
    parts = urlsplit(caller.sandbox.url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=0.05)
    connection.request("GET", f"/v2/verification/karma/{LISTED}", headers=caller.headers)
    with pytest.raises(TimeoutError):
        connection.getresponse()
    connection.close()
    caller.sandbox.wait_until_idle()
    entry = caller.sandbox.ledger()["entries"][-1]
    assert (entry["delivery"], entry["charged"]) == ("abandoned", "10")


def test_a_call_is_in_the_ledger_before_its_answer_leaves(caller: Caller) -> None:
    """Whoever has an answer finds it in the ledger."""
    started = time.time()
    for expected in range(1, 20):
        caller.karma(LISTED)
        assert caller.sandbox.totals()["totals"]["requests"] == expected
    assert caller.sandbox.ledger()["entries"][0]["at"] >= started - 1


def test_bounded_process_pages_to_the_end() -> None:
    """The process wrapper reads a bounded ledger without going in circles."""
    with SandboxProcess(ledger_limit=3) as process:
        headers = {"Authorization": f"Bearer {process.api_key}"}
        for _ in range(5):
            process.request("GET", f"/v2/verification/karma/{LISTED}", None, headers)
        assert [one["seq"] for one in process.ledger()["entries"]] == [3, 4, 5]
