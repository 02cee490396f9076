"""Faults: real on the socket, charged or not as named, and the same in every run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException, IncompleteRead, RemoteDisconnected
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from nightscreen.sandbox import test_identifiers
from nightscreen.sandbox.faults import FAULTS

if TYPE_CHECKING:
    from nightscreen.sandbox.process import SandboxProcess
    from tests.sandbox.conftest import Caller

CUT = (RemoteDisconnected, ConnectionResetError)
PLAIN = {
    "http_429": 429,
    "http_500": 500,
    "http_502": 502,
    "http_503": 503,
    "http_504": 504,
    "http_500_after_charge": 500,
    "http_502_after_charge": 502,
    "http_504_after_charge": 504,
    "unreadable": 200,
    "no_data": 200,
    "mock_response": 200,
    "empty_object": 200,
    "denied": 403,
    "unpriced": 500,
    "low_wallet": 402,
    "foreign_404": 404,
    "redirect": 302,
    "slow": 200,
    "huge": 200,
    "not_offered": 500,
    "mock_message": 200,
}


@pytest.fixture(autouse=True)
def _quick(sandbox: SandboxProcess) -> None:
    """Let silence and slowness be short."""
    sandbox.post("/_sandbox/manners", {"silence_s": 0.05, "slow_s": 0.01})


def charged(caller: Caller) -> str:
    """What the ledger says was charged in all."""
    return str(caller.sandbox.totals()["totals"]["charged"])


@pytest.mark.parametrize("fault", PLAIN)
def test_fault_with_an_answer(caller: Caller, fault: str) -> None:
    """The magic identifier gives the fault's status, and a charge only after the work is done."""
    answer = caller.karma(test_identifiers.by_word(fault.replace("_", "-")).bvn)
    assert answer.status == PLAIN[fault]
    assert charged(caller) == ("10" if FAULTS[fault].after else "0")


@pytest.mark.parametrize(
    ("fault", "cost"),
    [
        ("cut_before_charge", "0"),
        ("cut_after_charge", "10"),
        ("timeout_before_charge", "0"),
        ("timeout", "10"),
    ],
)
def test_cut_connection_sends_nothing(caller: Caller, fault: str, cost: str) -> None:
    """The socket closes without a byte, charged or not as the fault is named."""
    with pytest.raises(CUT):
        caller.karma(test_identifiers.by_word(fault.replace("_", "-")).bvn)
    assert charged(caller) == cost
    entry = caller.sandbox.ledger()["entries"][-1]
    assert (entry["http_status"], entry["delivery"], entry["fault"]) == (0, "cut", fault)


def test_truncated_body_is_shorter_than_it_said(caller: Caller) -> None:
    """The body stops in the middle, and the call is charged."""
    with pytest.raises(IncompleteRead):
        caller.karma(test_identifiers.by_word("truncated").bvn)
    assert charged(caller) == "10"
    entry = caller.sandbox.ledger()["entries"][-1]
    assert (entry["http_status"], entry["delivery"]) == (200, "cut")


@pytest.mark.parametrize("kind", ["phone", "email", "domain", "bvn"])
def test_faults_by_every_kind_of_identity(caller: Caller, kind: str) -> None:
    """A fault is met by whatever identity of the row is looked up."""
    assert caller.karma(getattr(test_identifiers.by_word("http-503"), kind)).status == 503


def test_retry_after_is_set(caller: Caller) -> None:
    """A 429 names its wait in seconds."""
    caller.sandbox.post("/_sandbox/faults", {"retry_after_s": 7})
    parts = urlsplit(caller.sandbox.url)
    connection = HTTPConnection(parts.hostname or "", parts.port)
    path = f"/v2/verification/karma/{test_identifiers.by_word('http-429').bvn}"
    connection.request("GET", path, headers=caller.headers)
    assert connection.getresponse().getheader("Retry-After") == "7"
    connection.close()


def outcomes(caller: Caller, workers: int) -> dict[str, list[str]]:
    """Ask about a hundred people twice, and tell which faults each attempt met."""
    caller.sandbox.reset()
    rates = {"http_500": 0.2, "cut_after_charge": 0.2, "truncated": 0.1}
    caller.sandbox.post("/_sandbox/latency", {"kind": "none"})
    caller.sandbox.post("/_sandbox/faults", {"operation": "karma", "rates": rates, "seed": 5})

    def ask(bvn: str) -> None:
        for _ in range(2):
            try:
                caller.karma(bvn)
            except (HTTPException, OSError):
                continue

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(ask, [f"22{number:09d}" for number in range(100)]))
    met: dict[str, list[str]] = {}
    for entry in caller.sandbox.ledger()["entries"]:
        met.setdefault(entry["identity"], []).append(entry["fault"])
    return met


def test_drawn_faults_do_not_depend_on_concurrency(caller: Caller) -> None:
    """Who meets which fault at which attempt is the same with one caller and with eight."""
    alone, together = outcomes(caller, 1), outcomes(caller, 8)
    assert alone == together
    hit = [fault for faults in alone.values() for fault in faults if fault]
    assert 60 < len(hit) < 140
    assert set(hit) == {"http_500", "cut_after_charge", "truncated"}


def test_scripted_fault_comes_at_its_call(caller: Caller) -> None:
    """The script counts the calls of its operation, and lasts as long as it says."""
    script = [{"operation": "karma", "at_call": 2, "calls": 2, "fault": "http_503"}]
    caller.sandbox.post("/_sandbox/faults", {"script": script})
    caller.ecosystem("22123456789")
    statuses = [caller.karma(test_identifiers.by_word("listed").bvn).status for _ in range(4)]
    assert statuses == [200, 503, 503, 200]
