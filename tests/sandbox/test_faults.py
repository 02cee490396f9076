"""Faults: real on the socket, charged or not as named, and the same in every run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from nightscreen.sandbox import faults
from nightscreen.sandbox.faults import FAULTS
from nightscreen.sandbox.test_identifiers import by_word
from tests.sandbox.conftest import Caller
from tests.sandbox.in_process import Here

LISTED = by_word("listed").bvn


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


def met_by(caller: Caller, workers: int) -> dict[str, list[str]]:
    """Ask about a hundred people twice, and return which faults each attempt met."""
    rates = {"http_500": 0.2, "cut_after_charge": 0.2, "truncated": 0.1}
    caller.sandbox.reset()
    caller.sandbox.post("/_sandbox/latency", {"kind": "none"})
    caller.sandbox.post("/_sandbox/faults", {"operation": "karma", "rates": rates, "seed": 5})

    def ask(bvn: str) -> None:
        for _ in range(2):
            try:
                caller.karma(bvn)
            except httpx.TransportError:
                continue

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(ask, [f"22{number:09d}" for number in range(100)]))
    met: dict[str, list[str]] = {}
    for entry in caller.sandbox.ledger()["entries"]:
        met.setdefault(entry["identity"], []).append(entry["fault"])
    return met


def test_drawn_faults_do_not_depend_on_concurrency(caller: Caller) -> None:
    """Who meets which fault at which attempt is the same with one caller and with eight."""
    alone, together = met_by(caller, 1), met_by(caller, 8)
    assert alone == together
    hit = [fault for met in alone.values() for fault in met if fault]
    assert 60 < len(hit) < 140
    assert set(hit) == {"http_500", "cut_after_charge", "truncated"}


async def test_scripted_fault_comes_at_its_call() -> None:
    """The script counts the calls of its operation, and lasts as long as it says."""
    here = Here()
    line = {"operation": "karma", "at_call": 2, "calls": 2, "fault": "http_503"}
    await here.control("faults", script=[line])
    await here.client.get("/v2/verification/ecosystem/22123456789")
    assert [(await here.karma(LISTED)).status_code for _ in range(4)] == [200, 503, 503, 200]
