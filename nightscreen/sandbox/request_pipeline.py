"""The pipeline every call passes: key, faults, wallet, input, answer, charge, ledger.

An area says in a table of operations how its requests are read and what they find; the state
knows how the sandbox is set. Bodies are read raw, for the service answers malformed ones in its own
way.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from nightscreen.sandbox import wire
from nightscreen.sandbox.faults import FAULTS
from nightscreen.sandbox.ledger import Entry
from nightscreen.sandbox.seeded_random import SeededRandom
from nightscreen.sandbox.wire import ABSENT, HTML, TEXT, Reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import BaseModel
    from starlette.types import Receive, Scope, Send

    from nightscreen.sandbox.faults import Fault
    from nightscreen.sandbox.state import Sandbox
    from nightscreen.sandbox.test_identifiers import MagicPerson

    Door = Callable[[Sandbox, Scope, dict[str, str]], "Outcome | None"]

_HUGE: Final = 6_000_000
_REMARK_ONE_IN: Final = 64
_REMARK: Final = {"deprecation": "A later version of this operation is available"}
_OK: Final = 200
_TOO_MANY: Final = 429
_GATEWAY: Final = 504
_REFUSALS: Final[dict[str, tuple[int, str, object]]] = {
    "denied": (
        403,
        "Access denied. You do not have permission to access this resource.",
        ABSENT,
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
_MARKS: Final[dict[str, dict[str, object] | None]] = {
    "mock-response": {"mock-response": "This is a mock response"},
    "message": None,
    "unmarked": None,
}
TEST_MODE_TEXT: Final = (
    "This is a test mode response. Your app is in test mode. Switch to live mode for real answers."
)
"""Recorded up to its second full stop; the rest of the text is made up."""


@dataclass(slots=True)
class Subject:
    """What a request asks about, as read from path and body."""

    identity: str = ""  # the identifier, as the ledger shows it
    fields: dict[str, str] = field(default_factory=dict)  # path parameters, texts of the body
    missing: str = ""  # the first field of the body that is absent or empty
    refusal: str = ""  # message of the 400 where a value is malformed
    hangs: str = ""  # outcome in a word where the service hangs until its gateway gives up
    row: MagicPerson | None = None  # row of the magic table, if the identifier is one
    # name of a fault that this call meets, and at how many attempts; 0 is every one
    trouble: tuple[str, int] | None = None


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


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the service: how its requests are read, and what it answers."""

    name: str  # in ledger, prices and faults
    method: str
    path: str  # path parameters in braces, in the manner of Starlette
    door: Door  # refuses who has not the right credential; may add to the fields of the request
    read: Callable[[Sandbox, Subject, dict[str, object]], None]  # completes what was read
    answer: Callable[[Sandbox, Subject], Answer]
    sample: Callable[[], Answer]  # what test mode gives to everyone
    body: type[BaseModel] | None = None  # its texts are required, unless they have a default

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts that the body must hold."""
        fields = self.body.model_fields.items() if self.body else ()
        return tuple(name for name, one in fields if one.is_required())


@dataclass(slots=True)
class Outcome:
    """The decision about a call."""

    word: str
    reply: Reply
    charged: int = 0  # micro-naira


class Handler:
    """Answers the calls of one operation; see the module's first line for the order."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self._texts = operation.texts

    async def handle(self, sandbox: Sandbox, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, and write it down before the answer leaves."""
        call = _Call(self.operation, sandbox, sandbox.arrive(self.operation.name))
        try:
            outcome = await self._decide(call, scope, receive)
            _write_down(call, outcome, gone=wire.is_gone(scope))
            await wire.deliver(outcome.reply, scope, receive, send)
        finally:
            sandbox.leave(self.operation.name)

    async def _decide(self, call: _Call, scope: Scope, receive: Receive) -> Outcome:
        operation, sandbox = self.operation, call.sandbox
        raw = await wire.read_body(receive) if scope["method"] != "GET" else b""
        subject = call.subject = Subject(fields=dict(scope["path_params"]))
        refused = operation.door(sandbox, scope, subject.fields)
        if refused:
            self._read(sandbox, subject, {})
            return refused
        call.authorized = True
        body = _parsed(raw)
        if body is None:
            call.subject = Subject()
            page = wire.html_page(400, "SyntaxError: Unexpected token in JSON")
            return Outcome("malformed_json", Reply(400, page, HTML))
        self._read(sandbox, subject, body)
        call.attempt, numbers = sandbox.count_call(operation.name, subject.identity)
        refusal = sandbox.over_capacity(operation.name)
        if refusal:
            call.fault = FAULTS[refusal]
            return Outcome("refused", call.failing(call.fault))
        call.fault = _chosen(subject, operation.name, call.attempt) or sandbox.faults.choose(
            operation.name, subject.identity, call.attempt, numbers
        )
        wait_s = sandbox.latency.seconds(operation.name)
        if call.fault and call.fault.name == "slow":
            wait_s += sandbox.manners.slow_s
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        return call.work_out(numbers[0])

    def _read(self, sandbox: Sandbox, subject: Subject, body: dict[str, object]) -> None:
        for name in self._texts:
            value = body.get(name)
            subject.fields[name] = value if isinstance(value, str) else ""
            if value is None or value == "":
                subject.missing = subject.missing or name
            elif not isinstance(value, str):
                subject.refusal = subject.refusal or f"{name} must be a string"
        self.operation.read(sandbox, subject, body)


def _chosen(subject: Subject, operation: str, attempt: int) -> Fault | None:
    """Return the fault that a magic identifier or a magic customer asks for."""
    row, trouble = subject.row, subject.trouble
    if row and row.fault and row.only in ("", operation):
        return FAULTS[row.fault]
    if trouble and (trouble[1] == 0 or attempt <= trouble[1]):
        return FAULTS[trouble[0]]
    return None


@dataclass(slots=True)
class _Call:
    """One call on its way."""

    operation: Operation
    sandbox: Sandbox
    in_flight: int
    subject: Subject = field(default_factory=Subject)
    fault: Fault | None = None
    authorized: bool = False
    attempt: int = 0
    priced: bool = False
    price: int = 0

    def work_out(self, number: int) -> Outcome:
        """Decide the call; nothing is awaited here, so that wallet and ledger agree."""
        sandbox, fault, mode = self.sandbox, self.fault, self.sandbox.test_mode
        self.priced = self.operation.name in sandbox.prices.now
        if self.priced:
            sandbox.wallet.count_call()
            self.price = sandbox.prices.price(self.operation.name, number)
        if fault and not fault.after:
            return self._before(fault)
        if sandbox.wallet.balance < self.price:
            return self._refused("low_wallet")
        if mode:
            return self._in_test_mode(mode)
        subject = self.subject
        if subject.hangs:
            return Outcome(subject.hangs, Reply(_GATEWAY, b"upstream request timeout", TEXT))
        if subject.refusal:
            body = wire.envelope("error", subject.refusal, meta=self._meta())
            return Outcome("malformed", Reply(400, body))
        outcome = self._look_up()
        if fault:
            self._after(outcome, fault)
        return outcome

    def _in_test_mode(self, mode: str) -> Outcome:
        """Answer with the record that everybody gets, marked in the way of the mode."""
        if mode == "empty":
            return Outcome("test_mode", Reply(_OK, b"{}"))
        sample = self.operation.sample()
        if mode == "message":
            sample.message = TEST_MODE_TEXT
        meta = self._meta(self.price if self.sandbox.manners.mock_cost else 0)
        return Outcome("test_mode", Reply(_OK, _written(sample, meta, _MARKS[mode])))

    def _look_up(self) -> Outcome:
        answer = self.operation.answer(self.sandbox, self.subject)
        if answer.http_status != _OK:
            meta = self._meta() if answer.meta else ""
            body = wire.envelope(answer.status, answer.message, answer.data, meta)
            return Outcome(answer.word, Reply(answer.http_status, body))
        if self.price:
            self.sandbox.wallet.charge(self.price)
        rare = SeededRandom("remark", self.subject.identity).below(_REMARK_ONE_IN)
        body = _written(answer, self._meta(self.price), None if rare else {**_REMARK})
        return Outcome(answer.word, Reply(_OK, body), self.price)

    def _meta(self, cost: int | None = None) -> str:
        """Write cost and balance; calls that are never priced have neither."""
        if not self.priced:
            return ""
        wallet = self.sandbox.wallet
        lags = self.sandbox.manners.balance_lags
        return wire.meta_text(cost, wallet.previous if lags else wallet.balance)

    def _before(self, fault: Fault) -> Outcome:
        """Fail a call before it is worked out; nothing is charged."""
        if fault.name in _REFUSALS:
            return self._refused(fault.name)
        if fault.name in _SAMPLES:
            return self._in_test_mode(_SAMPLES[fault.name])
        return Outcome("fault", self.failing(fault))

    def _refused(self, word: str) -> Outcome:
        """Refuse a call for the account's sake: its rights, its prices, its wallet."""
        status, text, data = _REFUSALS[word]
        return Outcome(word, Reply(status, wire.envelope("error", text, data, self._meta())))

    def _after(self, outcome: Outcome, fault: Fault) -> None:
        """Damage the delivery of a call that was processed and, if it hit, charged."""
        reply = outcome.reply
        match fault.name:
            case "slow":
                pass
            case "truncated":
                reply.way = "truncate"
            case "unreadable":
                outcome.reply = Reply(_OK, b'<!doctype html>{"status":"success","data":', HTML)
            case "huge":
                reply.body = reply.body[:-1] + b',"padding":"' + b"x" * _HUGE + b'"}'
            case _:
                outcome.reply = self.failing(fault)

    def failing(self, fault: Fault) -> Reply:
        """Make the reply of a fault that has one of its own, or none at all."""
        sandbox = self.sandbox
        if fault.name == "no_data":
            return Reply(_OK, wire.envelope("success", "Successful", meta=self._meta()))
        if fault.status == 0:
            silent = fault.name.startswith("timeout")
            return Reply(0, b"", way="cut", silence_s=sandbox.manners.silence_s * silent)
        if fault.status in _FAILURES:
            wait = (b"retry-after", f"{sandbox.faults.retry_after_s:g}".encode())
            headers = (wait,) if fault.status == _TOO_MANY else ()
            body = wire.envelope("error", _FAILURES[fault.status])
            return Reply(fault.status, body, headers=headers)
        if fault.status == _GATEWAY:
            return Reply(_GATEWAY, b"upstream request timeout", TEXT)
        if fault.name == "redirect":
            return Reply(fault.status, b"", HTML, ((b"location", b"/elsewhere"),))
        return Reply(fault.status, wire.html_page(fault.status), HTML)


def _write_down(call: _Call, outcome: Outcome, *, gone: bool) -> None:
    reply = outcome.reply
    call.sandbox.ledger.append(
        Entry(
            at=time.time(),
            operation=call.operation.name,
            identity=call.subject.identity,
            http_status=0 if reply.way == "cut" else reply.status,
            outcome=outcome.word,
            fault=call.fault.name if call.fault else "",
            charged=outcome.charged,
            balance=call.sandbox.wallet.balance,
            delivery="abandoned" if gone else "sent" if reply.way == "send" else "cut",
            attempt=call.attempt,
            authorized=call.authorized,
            in_flight=call.in_flight,
        )
    )


def _written(answer: Answer, meta: str, extra: dict[str, object] | None) -> bytes:
    """Write an answer, with its envelope unless it goes bare."""
    if answer.bare and isinstance(answer.data, dict):
        return wire.dumps({**answer.data, **(extra or {})}).encode("utf-8", "replace")
    return wire.envelope(answer.status, answer.message, answer.data, meta, extra)


def _parsed(raw: bytes) -> dict[str, object] | None:
    """Read a JSON body; None where it is no JSON, empty where it is no object."""
    if not raw:
        return {}
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else {}
