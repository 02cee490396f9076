"""Flows other than screening in virtual time, against a service in memory.

The service has fixed answers, and faults set by the test. Expectations of tests do not belong here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from nightscreen.operations.bvn import BvnConfirmations, BvnRequests
from nightscreen.schemas.bvn import ConfirmBvns, RequestBvns
from nightscreen.schemas.clock import system_clock
from tests.client.fakes import Canned
from tests.operations.bvn_in_a_test import asked
from tests.screening import VirtualWorld

NUMBER = 12
OTP = "482913"


@dataclass(slots=True)
class Service:
    """Answers after a second, and records its calls."""

    # returns a fault instead of an answer, from method and path; None for an answer
    fault: Callable[[str], Canned | None] = lambda _asked: None
    # number of good answers by method, path, body and token
    answered: Counter[str] = field(default_factory=Counter)
    asked: list[str] = field(default_factory=list)  # calls, faults included

    def __call__(self, request: httpx.Request) -> Canned:
        endpoint = f"{request.method} {request.url.path.removeprefix('/v2/')}"
        stream = request.stream
        assert isinstance(stream, httpx.ByteStream)
        body_and_token = b"".join(stream).decode() + request.headers.get("x-access-token", "")
        self.asked.append(endpoint)
        fault = self.fault(endpoint)
        if fault is not None:
            return Canned(fault.status, fault.body, fault.headers, fault.error, 1.0)
        self.answered[f"{endpoint} {body_and_token}"] += 1
        return Canned(200, _answer(endpoint), delay_s=1.0)


def _answer(endpoint: str) -> dict[str, Any]:
    method, path = endpoint.split(" ", 1)
    *_, before, last = path.split("/")
    meta = {"cost": 0, "balance": 5000}
    if last == "accounts" and method == "POST":
        return {"status": "otp", "message": "OTP sent", "data": "0803****567", "meta": meta}
    data = {"bvn": before, "first_name": "Amina", "last_name": "Bello"}
    return {"status": "success", "data": data, "meta": {"cost": 20, "balance": 4980}}


@dataclass
class Office(VirtualWorld):
    """A lender with a HOME and a service, on one virtual day."""

    service: Service = field(default_factory=Service)
    began: int = field(default_factory=system_clock)

    def __post_init__(self) -> None:
        # starts now, since the consents of tests follow the clock
        self.clock = lambda: self.began + int(self.loop.time() * 1_000_000)

    # --- flows ---

    def request(self, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - parameters of the flow
        source = self._customers()
        parameters = RequestBvns(input=source, output=self.out, **options)
        return self.run_persons(BvnRequests, parameters)

    def confirm(self, **options: Any) -> dict[str, Any]:  # noqa: ANN401
        """Request consent, then confirm it with the customers' passwords."""
        faults, self.service.fault = self.service.fault, lambda _asked: None
        self.request()
        self.service.fault = faults
        self.service.asked.clear()
        source = self.folder / "otps.csv"
        ids = (asked(number)["customer_id"] for number in range(NUMBER))
        source.write_text("customer_id,otp\n" + "".join(f"{each},{OTP}\n" for each in ids), "utf-8")
        parameters = ConfirmBvns(input=str(source), output=self.out, **options)
        return self.run_persons(BvnConfirmations, parameters)

    def _customers(self) -> str:
        return str(self.write([asked(number) for number in range(NUMBER)]))


def status(report: dict[str, Any]) -> Counter[str]:
    """Return the number of a run's calls by end, over all operations."""
    ends = ("paid", "free", "failed", "in_doubt", "pending")
    counts: Counter[str] = Counter()
    for part in report["checks"].values():
        counts.update({end: part[end] for end in ends})
    return counts


FLOWS: Sequence[str] = ("request", "confirm")
