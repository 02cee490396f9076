"""Money and memory: the wallet is really charged, and the ledger has every call."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import TYPE_CHECKING

import httpx
import pytest

from nightscreen.sandbox.faults import fixed
from nightscreen.sandbox.ledger import micros_of, naira_text
from nightscreen.sandbox.state import Opening, Sandbox
from nightscreen.sandbox.test_identifiers import by_word
from tests.sandbox.in_process import Here

if TYPE_CHECKING:
    from tests.sandbox.conftest import Caller

LISTED = by_word("listed").bvn


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


async def test_wallet_runs_dry() -> None:
    """A call that cannot be paid is refused; after a top-up calls are answered again."""
    here = Here()
    await here.control("wallet", balance=25)
    assert [(await here.karma(LISTED)).status_code for _ in range(4)] == [200, 200, 402, 402]
    assert (await here.karma(LISTED)).json() == {
        "status": "error",
        "message": "Insufficient balance",
        "data": None,
        "meta": {"balance": 5},
    }
    await here.control("wallet", top_up="20.5")
    assert (await here.karma(LISTED)).json()["meta"] == {"cost": 10, "balance": 15.5}


async def test_opening_and_movements_make_the_balance() -> None:
    """Opening + topped up - drained - charged = balance, another consumer's share included."""
    here = Here()
    await here.control("wallet", balance="500.25", drain_every={"calls": 2, "amount": 7})
    for _ in range(4):
        await here.karma(LISTED)
    await here.control("wallet", top_up=9)
    shown = await here.control("ledger?totals=1")
    part = {name: Decimal(value or 0) for name, value in shown["wallet"].items()}
    charged = Decimal(shown["totals"]["charged"])
    assert (part["balance"], charged) == (Decimal("455.25"), Decimal(40))
    assert part["opening"] + part["topped_up"] - part["drained"] - charged == part["balance"]


async def test_ledger_has_requests_charges_and_attempts() -> None:
    """Every call is an entry; totals agree; it is read after a number, by operation."""
    here = Here()
    for bvn in (LISTED, LISTED, "22999000005"):
        await here.karma(bvn)
        await here.client.get(f"/v2/verification/ecosystem/{bvn}")
    shown = await here.control("ledger")
    karma = [entry for entry in shown["entries"] if entry["operation"] == "karma"]
    assert [entry["seq"] for entry in karma] == [1, 3, 5]
    assert [entry["attempt"] for entry in karma] == [1, 2, 1]
    assert [entry["outcome"] for entry in karma] == ["listed", "listed", "clear"]
    assert (shown["totals"]["charged"], shown["totals"]["repeated_charges"]) == ("70", 2)
    counted = {"requests": 3, "charges": 2, "charged": "20"}
    assert shown["totals"]["by_operation"]["karma"] == counted
    assert (await here.control("ledger?since=4&operation=karma"))["entries"] == karma[2:]
    assert shown["next"] == 6


async def test_bounded_ledger_forgets_entries_but_not_totals() -> None:
    """With a limit the oldest entries go, numbers and sums stay."""
    here = Here(Sandbox(Opening(ledger_limit=2)))
    for _ in range(5):
        await here.karma(LISTED)
    shown = await here.control("ledger")
    assert [entry["seq"] for entry in shown["entries"]] == [4, 5]
    assert shown["totals"]["charges"] == 5


async def test_calls_in_flight_are_counted() -> None:
    """Peaks are kept for each operation and for all."""
    here = Here()
    here.sandbox.latency.default = fixed(50)
    await asyncio.gather(*(here.karma(LISTED) for _ in range(4)))
    shown = await here.control("ledger?totals=1")
    assert shown["peak_in_flight"]["karma"] == shown["peak_in_flight"]["all"] == 4
    assert shown["in_flight"]["all"] == 0


def test_caller_who_leaves_is_charged_all_the_same(caller: Caller) -> None:
    """A call whose caller gave up is worked out, charged and marked as abandoned."""
    caller.sandbox.post("/_sandbox/latency", {"kind": "fixed", "ms": 1000})
    address = f"{caller.sandbox.url}/v2/verification/karma/{LISTED}"
    with pytest.raises(httpx.ReadTimeout):
        httpx.get(address, headers=caller.headers, timeout=0.05)
    caller.sandbox.wait_until_idle()
    entry = caller.sandbox.ledger()["entries"][-1]
    assert (entry["delivery"], entry["charged"]) == ("abandoned", "10")
