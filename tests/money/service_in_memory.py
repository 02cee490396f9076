"""A service in memory with a wallet and a ledger, for whole runs in virtual time.

It answers from the sandbox's people. Expectations of tests do not belong here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import httpx

from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.people import account_of, ecosystem_of, karma_of
from nightscreen.schemas.approvals import Approval
from nightscreen.schemas.clock import to_instant
from tests.client.fakes import Canned
from tests.screening import Night, Steer, Steered, VirtualWorld

Fault = Callable[[str, str, int], Canned | None]
Rewrite = Callable[[str, str, dict[str, Any]], Canned | None]


LATENCY_S = 1.0
PRICES = {"karma": 10, "ecosystem": 25, "bank_account": 10}
AT_ONCE = dict.fromkeys(PRICES, 4)
LOST = Canned(error=httpx.ReadError("cut"))
NO_MONEY = Canned(402, {"status": "error", "message": "Insufficient wallet balance"})
DENIED = Canned(403, {"status": "error", "message": "Not allowed"})
REJECTED = Canned(400, {"status": "error", "message": "Rejected"})


@dataclass(slots=True)
class Service:
    """Answers and charges each call, and records it in the ledger."""

    wallet: int = 1_000_000  # naira left
    # returns a fault instead of an answer, from operation, identity and the call's number
    before: Fault = lambda *_: None
    after: Fault = lambda *_: None  # the same, once the lookup is done and charged
    # returns another form of a charged answer, from operation, identity and the document
    rewrite: Rewrite = lambda *_: None
    prices: dict[str, int] = field(default_factory=lambda: dict(PRICES))
    # returns `meta` from cost and balance; None leaves it out
    meta: Callable[[int, int], dict[str, int] | None] = lambda cost, balance: {
        "cost": cost,
        "balance": balance,
    }
    ledger: list[tuple[str, str, int]] = field(default_factory=list)  # operation, identity, naira
    at_first: int | None = None  # balance before the first call, None without one

    @property
    def charged(self) -> int:
        return sum(cost for _, _, cost in self.ledger)

    def __call__(self, request: httpx.Request) -> Canned:
        operation, identity, record = _lookup(request)
        number = len(self.ledger)
        self.at_first = self.wallet if self.at_first is None else self.at_first
        fault = self.before(operation, identity, number)
        cost = self.prices[operation] if record is not None else 0
        if fault is None and self.prices[operation] > self.wallet:
            fault = NO_MONEY
        if fault is not None:
            self.ledger.append((operation, identity, _stated_cost(fault)))
            return _delayed(fault)
        self.wallet -= cost
        self.ledger.append((operation, identity, cost))
        fault = self.after(operation, identity, number)
        answer = self._answer(operation, record, cost)
        if cost and isinstance(answer.body, dict):
            answer = self.rewrite(operation, identity, answer.body) or answer
        return _delayed(fault or answer)

    def _answer(self, operation: str, record: Any, cost: int) -> Canned:  # noqa: ANN401 - a record
        cost_and_balance = self.meta(cost, self.wallet)
        meta = {} if cost_and_balance is None else {"meta": cost_and_balance}
        if record is not None:
            data = json.loads(json.dumps(record, default=str))
            return Canned(200, {"status": "success", "data": data, **meta})
        if operation == "karma":
            return Canned(404, {"status": "success", "message": "Identity not found in karma"})
        if operation == "ecosystem":
            text = "not found in ecosystem"
            return Canned(404, {"status": "error", "message": text, **meta})
        return Canned(500, {"status": "error", "message": "invalid account", **meta})


def _stated_cost(fault: Canned) -> int:
    """Return the cost in the `meta` of a canned answer, 0 without it."""
    meta = fault.body.get("meta") if isinstance(fault.body, dict) else None
    return int(meta.get("cost", 0)) if isinstance(meta, dict) else 0


def _delayed(canned: Canned) -> Canned:
    return Canned(canned.status, canned.body, canned.headers, canned.error, LATENCY_S)


def _lookup(request: httpx.Request) -> tuple[str, str, Any]:
    """Return the operation, the identity and its record, if any."""
    *_, kind, last = request.url.path.split("/")
    if kind == "karma":
        return "karma", last, karma_of(last)
    if kind == "ecosystem":
        return "ecosystem", last, ecosystem_of(last)
    stream = request.stream
    assert isinstance(stream, httpx.ByteStream)
    body = json.loads(b"".join(stream))
    bank, number = body["bank_code"], body["account_number"]
    return "bank_account", f"{bank}-{number}", account_of(bank, number)


@dataclass
class Bureau(VirtualWorld):
    """A lender with a batch and a service in memory, whose runs take place in virtual time."""

    service: Service = field(default_factory=Service)
    rows: int = 90

    def __post_init__(self) -> None:
        self.clock = self.loop.micros
        self.settings = {"max_in_flight": AT_ONCE, **self.settings}

    def night(
        self,
        *,
        steer: Steer | None = None,
        ask_here: Callable[[Approval], bool] | None = None,
        **parameters: Any,  # noqa: ANN401 - parameters of a run
    ) -> Night:
        self.service.at_first = None
        night = self.screen_by(Steered(steer, ask_here), input=self.batch(), **parameters)
        balance = night.report["balance"]
        if balance["exact"] and "run" not in parameters:  # a resumed run opened earlier
            assert Decimal(balance["opening"]) == self.service.at_first
            assert Decimal(balance["closing"]) == self.service.wallet
        return night

    def batch(self) -> str:
        """Return the path of the batch, which is generated on first use."""
        source = self.folder / "in.csv"
        if not source.exists():
            day = to_instant(self.loop.micros()).date()  # consents must be valid in virtual time
            make_batch(source, rows=self.rows, seed=9, damage_pct=0, today=day)
        return str(source)

    @property
    def charged(self) -> str:
        """Return the total that the service charged, as decimal text."""
        return str(self.service.charged)
