"""Money, memory and faults: the wallet is really charged, and the ledger has every call."""

from __future__ import annotations

import socket

import httpx
import pytest

from nightscreen.sandbox import faults
from nightscreen.sandbox.faults import FAULTS
from nightscreen.sandbox.test_identifiers import by_word
from tests.sandbox.conftest import Caller
from tests.sandbox.in_process import Here

LISTED = by_word("listed").bvn


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
    # a text that has no place in UTF-8 does not make the ledger unreadable
    await here.client.post("/v2/loans/initialize", content=b'{"product_id":"\\ud800"}')
    assert (await here.control("ledger"))["entries"][-1]["identity"] == "?"


def test_caller_who_leaves_is_charged_all_the_same(caller: Caller) -> None:
    """A call whose caller gave up is worked out, charged and marked as abandoned."""
    caller.sandbox.post("/_sandbox/latency", {"kind": "fixed", "ms": 1000})
    address = f"{caller.sandbox.url}/v2/verification/karma/{LISTED}"
    with pytest.raises(httpx.ReadTimeout):
        httpx.get(address, headers=caller.headers, timeout=0.05)
    caller.sandbox.wait_until_idle()
    entry = caller.sandbox.ledger()["entries"][-1]
    assert (entry["delivery"], entry["charged"]) == ("abandoned", "10")


def test_caller_who_leaves_in_the_middle_of_a_body_is_in_the_ledger(caller: Caller) -> None:
    """Half a body is no JSON: refused, free, and an entry all the same."""
    host, _, port = caller.sandbox.url.removeprefix("http://").partition(":")
    lines = [
        f"POST /v2/verification/bvn/{LISTED}/selfies HTTP/1.1",
        f"Host: {host}:{port}",
        *(f"{name}: {value}" for name, value in caller.headers.items()),
        "Content-Length: 100",
    ]
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall("\r\n".join([*lines, "", '{"image"']).encode())
    for _ in range(100):
        entries = caller.sandbox.ledger()["entries"]
        if entries:
            break
        caller.sandbox.wait_until_idle()
    assert [(each["outcome"], each["charged"]) for each in entries] == [("malformed_json", "0")]


@pytest.mark.parametrize("fault", FAULTS.values(), ids=lambda fault: fault.name)
def test_a_fault_is_what_its_row_says(caller: Caller, fault: faults.Fault) -> None:
    """The status is the row's, a cut is one on the socket, a charge comes after the work alone."""
    caller.sandbox.post("/_sandbox/manners", {"silence_s": 0.05, "slow_s": 0.01})
    bvn, delivery = by_word(fault.name.replace("_", "-")).bvn, "sent"
    if fault.status == 0:
        delivery = "cut"
        with pytest.raises(httpx.TransportError, match=r"without sending|reset"):
            caller.karma(bvn)
    elif fault.name == "truncated":
        delivery = "cut"
        with pytest.raises(httpx.RemoteProtocolError, match="without sending complete"):
            caller.karma(bvn)
    else:
        assert caller.karma(bvn).status_code == fault.status
    (entry,) = caller.sandbox.ledger()["entries"]
    assert (entry["delivery"], entry["http_status"]) == (delivery, fault.status)
    assert entry["charged"] == ("10" if fault.after else "0")


async def test_scripted_fault_comes_at_its_call_and_a_wallet_runs_dry() -> None:
    """The script counts the calls of its operation, and lasts as long as it says.

    A call that cannot be paid is refused; after a top-up calls are answered again.
    """
    here = Here()
    line = {"operation": "karma", "at_call": 2, "calls": 2, "fault": "http_503"}
    await here.control("faults", script=[line])
    await here.client.get("/v2/verification/ecosystem/22123456789")
    assert [(await here.karma(LISTED)).status_code for _ in range(4)] == [200, 503, 503, 200]
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
