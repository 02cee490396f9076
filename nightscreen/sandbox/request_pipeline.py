"""The pipeline every call passes: key, faults, wallet, input, answer, charge, ledger.

An area says in a table of operations how its requests are read and what they find; the state
knows how the sandbox is set. Bodies are read raw, for the service answers malformed ones in its own
way.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from starlette.requests import ClientDisconnect, Request

from nightscreen.sandbox import wire
from nightscreen.sandbox.faults import FAULTS
from nightscreen.sandbox.fiction import SeededRandom
from nightscreen.sandbox.grants import NOBODY
from nightscreen.sandbox.ledger import Entry, naira
from nightscreen.sandbox.wire import ABSENT, HTML, OK, TEXT, Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import BaseModel
    from starlette.types import Receive, Scope, Send

    from nightscreen.sandbox.faults import Fault
    from nightscreen.sandbox.state import Sandbox
    from nightscreen.sandbox.test_identifiers import MagicCustomer

_HUGE: Final = 6_000_000
_REMARK_ONE_IN: Final = 64
_REMARK: Final = {"deprecation": "A later version of this operation is available"}
_TOO_MANY: Final = 429
_GATEWAY: Final = 504
_NO_KEY: Final = {
    "invalid": "Invalid Authorization",
    "verify": "We couldn't verify your access. Please check your authorization",
}
"""Both texts recorded, by the switch `missing_key_text`."""
UNAUTHORISED: Final = "You are not authorized to access this service."
TEST_MODE_TEXT: Final = (
    "This is a test mode response. Your app is in test mode. Switch to live mode for real answers."
)
"""Recorded up to its second full stop; the rest of the text is made up."""


def _proxy(word: str, status: int) -> Answer:
    """Answer as a proxy in front of the service does."""
    if status == _GATEWAY:
        return Answer(word, http_status=status, page=b"upstream request timeout", content_type=TEXT)
    return Answer(word, http_status=status, page=wire.html_page(status), content_type=HTML)


def _nothing(*_: object) -> Answer:
    """Answer nothing, for an operation whose door lets nobody in."""
    return Answer("")


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the service: how its requests are read, and what it answers."""

    name: str  # in ledger, prices and faults
    method: str
    path: str  # path parameters in braces, in the manner of Starlette
    door: Callable[[Call], Answer | None]  # refuses who has not the right credential
    read: Callable[[Call], None]  # completes what was read of the request
    answer: Callable[[Call], Answer] = _nothing
    sample: Callable[[], Answer] = _nothing  # what test mode gives to everyone
    body: type[BaseModel] | None = None  # its texts are required, unless they have a default

    async def handle(self, sandbox: Sandbox, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, and write it down before the answer leaves."""
        call = Call(self, sandbox, Request(scope, receive), sandbox.arrive(self.name))
        try:
            answer = await call.decide()
            transport = scope.get(wire.TRANSPORT)
            call.add_ledger_entry(answer, gone=bool(transport and transport.is_closing()))
            await wire.deliver(answer, scope, receive, send)
        finally:
            sandbox.leave(self.name)


@dataclass(slots=True)
class Call:
    """One call on its way: what it asks about, as read from path and body, and what it meets."""

    operation: Operation
    sandbox: Sandbox
    request: Request
    in_flight: int
    identity: str = ""  # the identifier, as the ledger shows it
    body: dict[str, object] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)  # path parameters, texts of the body
    missing: str = ""  # the first field of the body that is absent or empty
    refusal: str = ""  # message of the 400 where a value is malformed
    hangs: str = ""  # outcome in a word where the service hangs until its gateway gives up
    # row of a magic table, if the identifier or the customer is one
    row: MagicCustomer | None = None
    fault: Fault | None = None
    authorized: bool = False
    attempt: int = 0
    priced: bool = False
    price: int = 0

    def refuse(self, message: str) -> None:
        """Refuse a malformed value; what is found first counts."""
        self.refusal = self.refusal or message

    async def decide(self) -> Answer:
        """Decide the call; see the module's first line for the order."""
        operation, sandbox = self.operation, self.sandbox
        try:
            raw = await self.request.body() if self.request.method != "GET" else b""
        except ClientDisconnect:  # half a body is no JSON; the ledger has the call all the same
            raw = b"{"
        refused = operation.door(self)
        if refused:
            self._read()
            return refused
        self.authorized = True
        body = _parsed(raw)
        if body is None:
            page = wire.html_page(400, "SyntaxError: Unexpected token in JSON")
            return Answer("malformed_json", http_status=400, page=page, content_type=HTML)
        self.body = body
        self._read()
        self.attempt, numbers = sandbox.count_call(operation.name, self.identity)
        own = self.row.fault_at(operation.name, self.attempt) if self.row else ""
        self.fault = FAULTS.get(own) or sandbox.faults.choose(
            operation.name, self.identity, self.attempt, numbers
        )
        wait_s = sandbox.latency.seconds(operation.name)
        if self.fault and self.fault.name == "slow":
            wait_s += sandbox.manners.slow_s
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        return self._work_out()

    def _read(self) -> None:
        self.fields |= self.request.path_params
        model = self.operation.body
        for name, one in model.model_fields.items() if model else ():
            if not one.is_required():
                continue
            value = self.body.get(name)
            self.fields[name] = value if isinstance(value, str) else ""
            if value is None or value == "":
                self.missing = self.missing or name
            elif not isinstance(value, str):
                self.refuse(f"{name} must be a string")
        self.operation.read(self)

    def _work_out(self) -> Answer:
        """Charge and answer; nothing is awaited here, so that wallet and ledger agree."""
        sandbox, fault = self.sandbox, self.fault
        self.priced = self.operation.name in sandbox.prices
        if self.priced:
            sandbox.wallet.calls += 1
            self.price = sandbox.prices[self.operation.name]
        if fault and not fault.after:
            return self._failing(fault)
        if sandbox.wallet.balance < self.price:
            return self._failing(FAULTS["low_wallet"])
        if sandbox.test_mode:
            return self._in_test_mode(sandbox.test_mode)
        if self.hangs:
            return _proxy(self.hangs, _GATEWAY)
        if self.refusal:
            return self._metered(Answer.error("malformed", self.refusal))
        answer = self._look_up()
        return self._damaged(answer, fault) if fault else answer

    def _in_test_mode(self, mode: str) -> Answer:
        """Answer with the record that everybody gets, marked in the way of the mode."""
        if mode == "empty":
            return Answer("test_mode", page=b"{}")
        sample = self.operation.sample()
        sample.word = "test_mode"
        if mode == "message":
            sample.message = TEST_MODE_TEXT
        if mode == "mock-response":
            sample.extra = {"mock-response": "This is a mock response"}
        return self._metered(sample, self.price if self.sandbox.manners.mock_cost else 0)

    def _look_up(self) -> Answer:
        answer = self.operation.answer(self)
        if answer.http_status != OK:
            return self._metered(answer)
        if self.price:
            self.sandbox.wallet.charge(self.price)
        answer.charged = self.price
        if SeededRandom("remark", self.identity).below(_REMARK_ONE_IN) == 0:
            answer.extra = {**_REMARK}
        return self._metered(answer, self.price)

    def _metered(self, answer: Answer, cost: int | None = None) -> Answer:
        """Add cost and balance in naira; calls that are never priced have neither."""
        if self.priced and answer.metered:
            wallet = self.sandbox.wallet
            balance = wallet.previous if self.sandbox.manners.balance_lags else wallet.balance
            answer.meta = {} if cost is None else {"cost": naira(cost)}
            answer.meta["balance"] = naira(balance)
        return answer

    def _damaged(self, answer: Answer, fault: Fault) -> Answer:
        """Damage the delivery of a call that was processed and, if it hit, charged."""
        match fault.name:
            case "slow":
                pass
            case "truncated":
                answer.way = "truncate"
            case "unreadable":
                answer.page = b'<!doctype html>{"status":"success","data":'
                answer.http_status, answer.content_type = OK, HTML
            case "huge":
                answer.extra["padding"] = "x" * _HUGE
            case _:
                return replace(self._failing(fault), word=answer.word, charged=answer.charged)
        return answer

    def _failing(self, fault: Fault) -> Answer:
        """Answer as a fault does that has an answer of its own, or none at all; it is free."""
        name, status, sandbox = fault.name, fault.status, self.sandbox
        if fault.test_mode:
            return self._in_test_mode(fault.test_mode)
        if fault.refusal:
            data = None if fault.null_data else ABSENT
            return self._metered(Answer.error(name, fault.refusal, status, data))
        if name == "no_data":
            return self._metered(Answer("fault", "Successful"))
        if status == 0:
            silent = name.startswith("timeout")
            return Answer("fault", way="cut", silence_s=sandbox.manners.silence_s * silent)
        if fault.failure:
            answer = Answer.error("fault", fault.failure, status)
            wait = (b"retry-after", f"{sandbox.faults.retry_after_s:g}".encode())
            answer.headers = (wait,) if status == _TOO_MANY else ()
            return answer
        answer = _proxy("fault", status)
        if name == "redirect":
            answer.page, answer.headers = b"", ((b"location", b"/elsewhere"),)
        return answer

    def add_ledger_entry(self, answer: Answer, *, gone: bool) -> None:
        """Write the call into the ledger, as it is about to be answered."""
        self.sandbox.ledger.append(
            Entry(
                at=time.time(),
                operation=self.operation.name,
                identity=self.identity,
                http_status=0 if answer.way == "cut" else answer.http_status,
                outcome=answer.word,
                fault=self.fault.name if self.fault else "",
                charged=answer.charged,
                balance=self.sandbox.wallet.balance,
                delivery="abandoned" if gone else "sent" if answer.way == "send" else "cut",
                attempt=self.attempt,
                authorized=self.authorized,
                in_flight=self.in_flight,
            )
        )


def by_key(call: Call) -> Answer | None:
    """Let in who has the API key (service.md, "Authentication" 2 and 6)."""
    given = call.request.headers.get("authorization", "")
    if given == call.sandbox.authorization:
        return None
    if not given.strip():
        text = _NO_KEY[call.sandbox.manners.missing_key_text]
        return Answer.error("no_key", text, 401)
    return Answer.error("wrong_key", "Forbidden", 403)


def by_token(call: Call) -> Answer | None:
    """Let in who has a live access token, without the API key (service.md, "Authentication" 3).

    A token that is absent, unknown, expired or revoked is answered alike.
    """
    token = call.fields["token"] = call.request.headers.get("x-access-token", "")
    grants, now = call.sandbox.grants, call.sandbox.now()
    grant = grants.find(token)
    if grant and now < grant.accesses[token]:
        return None
    grants.count(grant.customer if grant else NOBODY, "refused_tokens")
    word = "expired_token" if grant else "unknown_token" if token else "no_token"
    return Answer.error(word, UNAUTHORISED, 403)


def _parsed(raw: bytes) -> dict[str, object] | None:
    """Read a JSON body; None where it is no JSON, empty where it is no object."""
    if not raw:
        return {}
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else {}
