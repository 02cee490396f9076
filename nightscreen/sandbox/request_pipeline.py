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
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, Field, create_model

from nightscreen.sandbox import wire
from nightscreen.sandbox.faults import FAULTS
from nightscreen.sandbox.grants import NOBODY
from nightscreen.sandbox.ledger import Entry, naira
from nightscreen.sandbox.seeded_random import SeededRandom
from nightscreen.sandbox.wire import ABSENT, HTML, TEXT, Reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive, Scope, Send

    from nightscreen.sandbox.faults import Fault
    from nightscreen.sandbox.state import Sandbox
    from nightscreen.sandbox.test_identifiers import MagicPerson

Meta = dict[str, Decimal] | None
_HUGE: Final = 6_000_000
_REMARK_ONE_IN: Final = 64
_REMARK: Final = {"deprecation": "A later version of this operation is available"}
_OK: Final = 200
_TOO_MANY: Final = 429
_GATEWAY: Final = 504
_NO_KEY: Final = {
    "invalid": "Invalid Authorization",
    "verify": "We couldn't verify your access. Please check your authorization",
}
"""Both texts recorded, by the switch `missing_key_text`."""
UNAUTHORISED: Final = "You are not authorized to access this service."
_REFUSALS: Final[dict[str, tuple[int, str, object]]] = {
    "denied": (
        *(403, "Access denied. You do not have permission to access this resource.", ABSENT),
    ),
    "unpriced": (500, "We could not find a matching price definition for your request.", None),
    "not_offered": (500, "The specified service does not exist.", None),
    "low_wallet": (402, "Insufficient balance", None),
}
"""Status, message and data of what is refused for the account's sake, by fault."""
_FAILURES: Final = {
    _TOO_MANY: "Too many requests",
    500: "Something went wrong, please try again",
}
_SAMPLES: Final = {
    "empty_object": "empty",
    "mock_response": "mock-response",
    "mock_message": "message",
}
"""Faults that answer as a test mode does."""
TEST_MODE_TEXT: Final = (
    "This is a test mode response. Your app is in test mode. Switch to live mode for real answers."
)
"""Recorded up to its second full stop; the rest of the text is made up."""


@dataclass(slots=True)
class Answer:
    """What a lookup found; errors of the operation's own and misses included."""

    word: str  # outcome in one word, for the ledger
    message: str | None  # text of the envelope; None leaves it out
    data: object = ABSENT  # the record, or ABSENT
    status: str = "success"  # status word of the envelope
    http_status: int = _OK  # every other than 200 is free
    bare: bool = False  # whether the data is the whole body, without an envelope around it
    meta: bool = True  # whether the envelope has cost and balance, of a priced operation

    @classmethod
    def error(
        cls, word: str, message: str, http_status: int = 400, data: object = ABSENT
    ) -> Answer:
        """Make an error of an operation's own."""
        return cls(word, message, data, "error", http_status)

    def reply(
        self, meta: Meta = None, extra: dict[str, object] | None = None, charged: int = 0
    ) -> Reply:
        """Write the answer, with its envelope unless it goes bare."""
        if self.bare and isinstance(self.data, dict):
            body = wire.written({**self.data, **(extra or {})})
        else:
            body = wire.envelope(self.status, self.message, self.data, meta, extra)
        return Reply(self.word, self.http_status, body, charged=charged)


def texts(name: str, **meanings: str) -> type[BaseModel]:
    """Make the model of a body whose fields are texts, each required, with what it means."""
    fields: dict[str, Any] = {
        field: (str, Field(description=meaning)) for field, meaning in meanings.items()
    }
    return create_model(name, **fields)


def _nothing(*_: object) -> Answer:
    """Answer nothing, for an operation whose door lets nobody in."""
    return Answer("", None)


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the service: how its requests are read, and what it answers."""

    name: str  # in ledger, prices and faults
    method: str
    path: str  # path parameters in braces, in the manner of Starlette
    door: Callable[[Call], Reply | None]  # refuses who has not the right credential
    read: Callable[[Call], None]  # completes what was read of the request
    answer: Callable[[Call], Answer] = _nothing
    sample: Callable[[], Answer] = _nothing  # what test mode gives to everyone
    body: type[BaseModel] | None = None  # its texts are required, unless they have a default

    async def handle(self, sandbox: Sandbox, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, and write it down before the answer leaves."""
        call = Call(self, sandbox, scope, sandbox.arrive(self.name))
        try:
            reply = await call.decide(receive)
            call.add_ledger_entry(reply, gone=wire.is_gone(scope))
            await wire.deliver(reply, scope, receive, send)
        finally:
            sandbox.leave(self.name)


@dataclass(slots=True)
class Call:
    """One call on its way: what it asks about, as read from path and body, and what it meets."""

    operation: Operation
    sandbox: Sandbox
    scope: Scope
    in_flight: int
    identity: str = ""  # the identifier, as the ledger shows it
    body: dict[str, object] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)  # path parameters, texts of the body
    missing: str = ""  # the first field of the body that is absent or empty
    refusal: str = ""  # message of the 400 where a value is malformed
    hangs: str = ""  # outcome in a word where the service hangs until its gateway gives up
    row: MagicPerson | None = None  # row of the magic table, if the identifier is one
    # name of a fault that this call meets, and at how many attempts; 0 is every one
    trouble: tuple[str, int] | None = None
    fault: Fault | None = None
    authorized: bool = False
    attempt: int = 0
    priced: bool = False
    price: int = 0

    def header(self, wanted: bytes) -> str:
        """Return a header of the request, empty where it has none."""
        found = (value for name, value in self.scope["headers"] if name == wanted)
        return next(found, b"").decode("latin-1")

    def refuse(self, message: str) -> None:
        """Refuse a malformed value; what is found first counts."""
        self.refusal = self.refusal or message

    async def decide(self, receive: Receive) -> Reply:
        """Decide the call; see the module's first line for the order."""
        operation, sandbox = self.operation, self.sandbox
        raw = await wire.read_body(receive) if self.scope["method"] != "GET" else b""
        refused = operation.door(self)
        if refused:
            self._read()
            return refused
        self.authorized = True
        body = _parsed(raw)
        if body is None:
            page = wire.html_page(400, "SyntaxError: Unexpected token in JSON")
            return Reply("malformed_json", 400, page, HTML)
        self.body = body
        self._read()
        self.attempt, numbers = sandbox.count_call(operation.name, self.identity)
        self.fault = self._own_fault() or sandbox.faults.choose(
            operation.name, self.identity, self.attempt, numbers
        )
        wait_s = sandbox.latency.seconds(operation.name)
        if self.fault and self.fault.name == "slow":
            wait_s += sandbox.manners.slow_s
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        return self._work_out()

    def _read(self) -> None:
        self.fields |= self.scope.get("path_params", {})
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

    def _own_fault(self) -> Fault | None:
        """Return the fault that a magic identifier or a magic customer asks for."""
        row, trouble = self.row, self.trouble
        if row and row.fault and row.only in ("", self.operation.name):
            return FAULTS[row.fault]
        if trouble and (trouble[1] == 0 or self.attempt <= trouble[1]):
            return FAULTS[trouble[0]]
        return None

    def _work_out(self) -> Reply:
        """Charge and answer; nothing is awaited here, so that wallet and ledger agree."""
        sandbox, fault, mode = self.sandbox, self.fault, self.sandbox.test_mode
        self.priced = self.operation.name in sandbox.prices
        if self.priced:
            sandbox.wallet.count_call()
            self.price = sandbox.prices[self.operation.name]
        if fault and not fault.after:
            return self._before(fault)
        if sandbox.wallet.balance < self.price:
            return self._refused("low_wallet")
        if mode:
            return self._in_test_mode(mode)
        if self.hangs:
            return Reply(self.hangs, _GATEWAY, b"upstream request timeout", TEXT)
        if self.refusal:
            return Answer.error("malformed", self.refusal).reply(self._meta())
        reply = self._look_up()
        return self._damaged(reply, fault) if fault else reply

    def _in_test_mode(self, mode: str) -> Reply:
        """Answer with the record that everybody gets, marked in the way of the mode."""
        if mode == "empty":
            return Reply("test_mode", _OK, b"{}")
        sample = self.operation.sample()
        sample.word = "test_mode"
        if mode == "message":
            sample.message = TEST_MODE_TEXT
        meta = self._meta(self.price if self.sandbox.manners.mock_cost else 0)
        mark: dict[str, object] = {"mock-response": "This is a mock response"}
        return sample.reply(meta, mark if mode == "mock-response" else None)

    def _look_up(self) -> Reply:
        answer = self.operation.answer(self)
        if answer.http_status != _OK:
            return answer.reply(self._meta() if answer.meta else None)
        if self.price:
            self.sandbox.wallet.charge(self.price)
        rare = SeededRandom("remark", self.identity).below(_REMARK_ONE_IN)
        return answer.reply(self._meta(self.price), None if rare else {**_REMARK}, self.price)

    def _meta(self, cost: int | None = None) -> Meta:
        """Return cost and balance in naira; calls that are never priced have neither."""
        if not self.priced:
            return None
        wallet = self.sandbox.wallet
        balance = wallet.previous if self.sandbox.manners.balance_lags else wallet.balance
        told = {"balance": naira(balance)}
        return told if cost is None else {"cost": naira(cost), **told}

    def _before(self, fault: Fault) -> Reply:
        """Fail a call before it is worked out; nothing is charged."""
        if fault.name in _REFUSALS:
            return self._refused(fault.name)
        if fault.name in _SAMPLES:
            return self._in_test_mode(_SAMPLES[fault.name])
        return self._failing(fault)

    def _refused(self, word: str) -> Reply:
        """Refuse a call for the account's sake: its rights, its prices, its wallet."""
        status, text, data = _REFUSALS[word]
        return Answer.error(word, text, status, data).reply(self._meta())

    def _damaged(self, reply: Reply, fault: Fault) -> Reply:
        """Damage the delivery of a call that was processed and, if it hit, charged."""
        match fault.name:
            case "slow":
                pass
            case "truncated":
                reply.way = "truncate"
            case "unreadable":
                reply.body = b'<!doctype html>{"status":"success","data":'
                reply.status, reply.content_type = _OK, HTML
            case "huge":
                reply.body = reply.body[:-1] + b',"padding":"' + b"x" * _HUGE + b'"}'
            case _:
                failing = self._failing(fault)
                return replace(failing, word=reply.word, charged=reply.charged)
        return reply

    def _failing(self, fault: Fault) -> Reply:
        """Make the reply of a fault that has one of its own, or none at all."""
        status, sandbox = fault.status, self.sandbox
        if fault.name == "no_data":
            return Answer("fault", "Successful").reply(self._meta())
        if status == 0:
            silent = fault.name.startswith("timeout")
            return Reply("fault", 0, way="cut", silence_s=sandbox.manners.silence_s * silent)
        if status in _FAILURES:
            wait = (b"retry-after", f"{sandbox.faults.retry_after_s:g}".encode())
            reply = Answer.error("fault", _FAILURES[status], status).reply()
            reply.headers = (wait,) if status == _TOO_MANY else ()
            return reply
        if status == _GATEWAY:
            return Reply("fault", _GATEWAY, b"upstream request timeout", TEXT)
        if fault.name == "redirect":
            return Reply("fault", status, b"", HTML, ((b"location", b"/elsewhere"),))
        return Reply("fault", status, wire.html_page(status), HTML)

    def add_ledger_entry(self, reply: Reply, *, gone: bool) -> None:
        """Write the call into the ledger, as it is about to be answered."""
        self.sandbox.ledger.append(
            Entry(
                at=time.time(),
                operation=self.operation.name,
                identity=self.identity,
                http_status=0 if reply.way == "cut" else reply.status,
                outcome=reply.word,
                fault=self.fault.name if self.fault else "",
                charged=reply.charged,
                balance=self.sandbox.wallet.balance,
                delivery="abandoned" if gone else "sent" if reply.way == "send" else "cut",
                attempt=self.attempt,
                authorized=self.authorized,
                in_flight=self.in_flight,
            )
        )


def by_key(call: Call) -> Reply | None:
    """Let in who has the API key (service.md, "Authentication" 2 and 6)."""
    given = call.header(b"authorization")
    if given == call.sandbox.authorization:
        return None
    if not given.strip():
        text = _NO_KEY[call.sandbox.manners.missing_key_text]
        return Answer.error("no_key", text, 401).reply()
    return Answer.error("wrong_key", "Forbidden", 403).reply()


def by_token(call: Call) -> Reply | None:
    """Let in who has a live access token, without the API key (service.md, "Authentication" 3).

    A token that is absent, unknown, expired or revoked is answered alike.
    """
    token = call.fields["token"] = call.header(b"x-access-token")
    grants, now = call.sandbox.grants, call.sandbox.now()
    grant = grants.find(token)
    if grant and now < grant.accesses[token]:
        return None
    grants.count(grant.customer if grant else NOBODY, "refused_tokens")
    word = "expired_token" if grant else "unknown_token" if token else "no_token"
    return Answer.error(word, UNAUTHORISED, 403).reply()


def _parsed(raw: bytes) -> dict[str, object] | None:
    """Read a JSON body; None where it is no JSON, empty where it is no object."""
    if not raw:
        return {}
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else {}
