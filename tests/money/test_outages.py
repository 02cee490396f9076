"""Outages in flows other than screening: waited out before a deadline, final without one.

One driver runs all flows person by person: the two stages of BVN consent stand for them, in virtual
time, against a service in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from nightscreen.operations.bvn import BvnConfirmations, BvnRequests
from nightscreen.schemas.bvn import ConfirmBvns, RequestBvns
from nightscreen.schemas.clock import system_clock
from tests.client.fakes import Canned
from tests.money.service_in_memory import DENIED, NO_MONEY
from tests.operations.bvn_in_a_test import asked
from tests.screening import VirtualWorld

NUMBER = 12
OTP = "482913"
BUSY = Canned(503, b"busy")
FOR_EVER = Canned(503, b"busy", {"Retry-After": "3600"})
MINUTE = 60.0


@dataclass(slots=True)
class Service:
    """Answers after a second, and records its calls."""

    # returns a fault instead of an answer, from method and path; None for an answer
    fault: Callable[[str], Canned | None] = lambda _asked: None
    # number of good answers by method, path and body
    answered: Counter[str] = field(default_factory=Counter)
    asked: list[str] = field(default_factory=list)  # calls, faults included

    def __call__(self, request: httpx.Request) -> Canned:
        endpoint = f"{request.method} {request.url.path.removeprefix('/v2/')}"
        stream = request.stream
        assert isinstance(stream, httpx.ByteStream)
        self.asked.append(endpoint)
        fault = self.fault(endpoint)
        if fault is not None:
            return Canned(fault.status, fault.body, fault.headers, fault.error, 1.0)
        self.answered[f"{endpoint} {b''.join(stream).decode()}"] += 1
        return Canned(200, _answer(endpoint), delay_s=1.0)


def _answer(endpoint: str) -> dict[str, Any]:
    if endpoint.startswith("POST") and endpoint.endswith("/accounts"):
        meta = {"cost": 0, "balance": 5000}
        return {"status": "otp", "message": "OTP sent", "data": "0803****567", "meta": meta}
    data = {"bvn": endpoint.split("/")[-2], "first_name": "Amina", "last_name": "Bello"}
    return {"status": "success", "data": data, "meta": {"cost": 20, "balance": 4980}}


@dataclass
class Office(VirtualWorld):
    """A lender with a HOME and a service, on one virtual day."""

    service: Service = field(default_factory=Service)
    began: int = field(default_factory=system_clock)

    def __post_init__(self) -> None:
        # starts now, since the consents of tests follow the clock
        self.clock = lambda: self.began + int(self.loop.time() * 1_000_000)

    def request(self, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - parameters of the flow
        source = str(self.write([asked(number) for number in range(NUMBER)]))
        parameters = RequestBvns(input=source, output=self.out, **options)
        return self.run_persons(BvnRequests, parameters)

    def confirm(self, **options: Any) -> dict[str, Any]:  # noqa: ANN401
        """Request consent, then confirm it with the customers' passwords."""
        faults, self.service.fault = self.service.fault, lambda _asked: None
        self.request()
        self.service.fault = faults
        self.service.asked.clear()
        ids = (asked(number)["customer_id"] for number in range(NUMBER))
        source = self.write([{"customer_id": each, "otp": OTP} for each in ids], "otps.csv")
        parameters = ConfirmBvns(input=str(source), output=self.out, **options)
        return self.run_persons(BvnConfirmations, parameters)


def status(report: dict[str, Any]) -> Counter[str]:
    """Return the number of a run's calls by end, over all operations."""
    counts: Counter[str] = Counter()
    for part in report["checks"].values():
        counts.update({end: part[end] for end in ("paid", "free", "failed", "in_doubt", "pending")})
    return counts


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


def during(office: Office, seconds: float, fault: Canned) -> Callable[[str], Canned | None]:
    """Return a fault for some seconds from the first call on."""
    times: list[float] = []

    def fault_now(_asked: str) -> Canned | None:
        times.append(office.loop.time())
        return fault if times[-1] - times[0] < seconds else None

    return fault_now


@pytest.mark.parametrize("flow", ["request", "confirm"])
def test_an_outage_is_waited_out_before_the_deadline(office: Office, flow: str) -> None:
    """503 for ten minutes, then good answers: all people are asked, and answered once."""
    office.service.fault = during(office, 10 * MINUTE, BUSY)
    report = getattr(office, flow)(deadline=office.in_hours(3))
    assert (report["state"], report["stop_reason"]) == ("completed", None)
    ended = status(report)
    assert (ended["failed"], ended["in_doubt"], ended["pending"]) == (0, 0, 0)
    assert ended["paid"] + ended["free"] >= NUMBER
    assert max(office.service.answered.values()) == 1
    assert 10 * MINUTE < office.loop.time() < 30 * MINUTE


def test_a_short_outage_stops_nothing(office: Office) -> None:
    """503 for some minutes uses up no attempts: as long as no call is answered, none fails."""
    office.service.fault = during(office, 5 * MINUTE, BUSY)
    report = office.request()
    assert (report["state"], status(report)["free"]) == ("completed", NUMBER)
    assert office.loop.time() < 8 * MINUTE


def test_without_a_deadline_an_outage_is_given_up(office: Office) -> None:
    """Endless `Retry-After`: after ten minutes without an answer the run ends, and says why."""
    office.service.fault = lambda _asked: FOR_EVER
    report = office.confirm()
    assert (report["state"], report["stop_reason"]) == ("stopped", "outage")
    assert 10 * MINUTE <= office.loop.time() < 15 * MINUTE
    assert status(report)["in_doubt"] == 0
    assert len(office.service.asked) <= NUMBER
    assert any("no answer since" in text and "Retry-After" in text for text in report["notices"])


def test_a_topped_up_wallet_is_noticed(office: Office) -> None:
    """402 stops a run; before a deadline a single call checks from time to time for new money."""
    times: list[float] = []

    def no_money_for_a_time(_asked: str) -> Canned | None:
        times.append(office.loop.time())
        return NO_MONEY if times[-1] - times[0] < 40 * MINUTE else None

    office.service.fault = no_money_for_a_time
    report = office.confirm(deadline=office.in_hours(3))
    assert report["state"] == "completed"
    assert status(report)["failed"] == 0
    waits = [each - times[0] for each in times if each - times[0] < 40 * MINUTE]
    tries = [round(each / MINUTE) for each in waits]
    assert [each for each in tries if each > 1] == [15, 30]


def test_a_refused_key_is_not_waited_for(office: Office) -> None:
    """Waiting does not help: the run stops at once, deadline or not, and says why."""
    office.service.fault = lambda _asked: DENIED
    report = office.request(deadline=office.in_hours(3))
    assert (report["state"], report["stop_reason"]) == ("stopped", "auth")
    assert office.loop.time() < 5 * MINUTE
    assert len(office.service.asked) <= 2 * NUMBER


def test_a_floor_under_the_balance_holds_for_every_flow(tmp_path: Path) -> None:
    """No flow takes the wallet below `BALANCE_FLOOR`."""
    office = Office(tmp_path, settings={"balance_floor": "4990"})
    report = office.confirm()
    assert (report["state"], report["stop_reason"]) == ("stopped", "balance")
    assert len(office.service.asked) == 1
