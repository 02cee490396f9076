"""Faults: real on the socket, charged or not as named, and the same in every run."""

from __future__ import annotations

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


async def test_scripted_fault_comes_at_its_call() -> None:
    """The script counts the calls of its operation, and lasts as long as it says."""
    here = Here()
    line = {"operation": "karma", "at_call": 2, "calls": 2, "fault": "http_503"}
    await here.control("faults", script=[line])
    await here.client.get("/v2/verification/ecosystem/22123456789")
    assert [(await here.karma(LISTED)).status_code for _ in range(4)] == [200, 503, 503, 200]
