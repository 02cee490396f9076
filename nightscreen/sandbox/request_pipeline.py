"""The pipeline every priced call passes: key, wallet, faults, input, answer, charge, ledger.

One class carries a call from its arrival to its delivery. The routes of an area know what a lookup
finds; the state knows how the sandbox is set.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from nightscreen.sandbox import faults, wire
from nightscreen.sandbox.ledger import Entry
from nightscreen.sandbox.seeded_random import SeededRandom
from nightscreen.sandbox.wire import ABSENT, HTML, TEXT, Meta, Reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive, Scope, Send

    from nightscreen.sandbox.faults import Fault
    from nightscreen.sandbox.state import Sandbox
    from nightscreen.sandbox.test_identifiers import MagicPerson

_HUGE: Final = 6_000_000
_REMARK_ONE_IN: Final = 64
_MOCK_TEXT: Final = "This is a mock response"
TEST_MODE_TEXT: Final = (
    "This is a test mode response. Your app is in test mode. Switch to live mode for real answers."
)
"""Recorded up to its second full stop; the rest of the text is made up."""


@dataclass(slots=True)
class Subject:
    """What a request asks about, as read from path and body."""

    identity: str  # the identifier, as the ledger shows it
    fields: dict[str, str] = field(default_factory=dict)  # the values the lookup needs
    missing: bool = False  # whether a required field is absent or empty
    refusal: str = ""  # message of the 400 where a value is malformed
    special: MagicPerson | None = None  # row of the magic table, if the identifier is one
    # name of a fault that this call meets, and at how many attempts; 0 is every one
    trouble: tuple[str, int] | None = None
    # whether the photograph's address is not a web address; the service hangs then, as where a
    # field is missing, until its gateway gives up
    no_address: bool = False


@dataclass(slots=True)
class Answer:
    """What a lookup found."""

    word: str  # outcome in one word, for the ledger
    message: str | None  # text of the envelope; None leaves it out
    data: object = ABSENT  # the record, or ABSENT
    status: str = "success"  # status word of the envelope
    miss: str = ""  # form of a miss as the manners name it, such as `404_error`; empty for a hit
    meta: bool = True  # whether a miss carries the balance
    http_status: int = 200  # for an error of the operation's own, its HTTP status; 200 otherwise
    bare: bool = False  # whether the data is the whole body, without an envelope around it


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the service: how its requests are read, and what it answers."""

    name: str  # in ledger, prices and switches
    read: Callable[[dict[str, str], dict[str, object]], Subject]  # of path and body
    answer: Callable[[Sandbox, Subject], Answer]
    sample: Callable[[], Answer]  # what test mode gives to everyone


@dataclass(slots=True)
class Outcome:
    """The decision about a call."""

    word: str
    reply: Reply
    charged: int = 0


@dataclass(slots=True)
class Call:
    """One call on its way through the pipeline."""

    operation: Operation
    in_flight: int
    subject: Subject = field(default_factory=lambda: Subject(""))
    fault: Fault | None = None
    authorized: bool = False
    attempt: int = 0
    number: int = 0
    metered: bool = False
    price: int = 0


class Authenticator(Protocol):
    """Who is let in, and on whose behalf; `sandbox.auth` has those of the service."""

    def refuse(self, scope: Scope) -> Outcome | None:
        """Refuse a caller without the right credential."""
        ...

    def read(self, operation: Operation, scope: Scope, body: dict[str, object]) -> Subject:
        """Read what a request asks about."""
        ...


class RequestPipeline:
    """Carries calls through; see the module's first line for the order."""

    def __init__(self, sandbox: Sandbox, door: Authenticator) -> None:
        self._sandbox = sandbox
        self._door = door

    async def handle(
        self, operation: Operation, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer one request of an operation, and write it down before the answer leaves."""
        sandbox = self._sandbox
        call = Call(operation, sandbox.arrive(operation.name))
        try:
            outcome = await self._decide(call, scope, receive)
            self._write_down(call, outcome, gone=wire.is_gone(scope))
            await wire.deliver(outcome.reply, scope, receive, send)
        finally:
            sandbox.leave(operation.name)

    def _write_down(self, call: Call, outcome: Outcome, *, gone: bool) -> None:
        reply = outcome.reply
        sent = reply.way == "send"
        self._sandbox.ledger.append(
            Entry(
                at=time.time(),
                operation=call.operation.name,
                identity=call.subject.identity,
                http_status=0 if reply.way == "cut" else reply.status,
                outcome=outcome.word,
                fault=call.fault.name if call.fault else "",
                charged=outcome.charged,
                balance=self._sandbox.wallet.balance,
                delivery="abandoned" if gone else "sent" if sent else "cut",
                attempt=call.attempt,
                authorized=call.authorized,
                in_flight=call.in_flight,
            )
        )

    async def _decide(self, call: Call, scope: Scope, receive: Receive) -> Outcome:
        operation, sandbox = call.operation, self._sandbox
        raw = await wire.read_body(receive) if scope["method"] != "GET" else b""
        refused = self._door.refuse(scope)
        if refused:
            call.subject = self._door.read(operation, scope, {})
            return refused
        call.authorized = True
        body = _parsed(raw)
        if body is None:
            return self._malformed_json()
        subject = call.subject = self._door.read(operation, scope, body)
        call.attempt, numbers = sandbox.count_call(operation.name, subject.identity)
        call.number = numbers[0]
        full = sandbox.over_capacity(operation.name)
        if full:
            call.fault = faults.FAULTS[full.refusal]
            return Outcome("refused", self._failing(call, call.fault))
        call.fault = (
            faults.of_magic(subject.special, operation.name)
            or faults.of_trouble(subject.trouble, call.attempt)
            or sandbox.faults.choose(operation.name, subject.identity, call.attempt, numbers)
        )
        await self._wait(call)
        return self._work_out(call)

    async def _wait(self, call: Call) -> None:
        seconds = self._sandbox.latency.seconds(call.operation.name)
        if call.fault and call.fault.name == "slow":
            seconds += self._sandbox.manners.slow_s
        if seconds > 0:
            await asyncio.sleep(seconds)

    def _work_out(self, call: Call) -> Outcome:
        """Decide the call; nothing is awaited from here on, so that wallet and ledger agree."""
        sandbox, fault = self._sandbox, call.fault
        call.metered = call.operation.name in sandbox.prices.now
        if call.metered:
            sandbox.wallet.count_call()
            call.price = sandbox.prices.price(call.operation.name, call.number)
        if fault and not fault.after:
            return self._play_before(call, fault)
        checks: tuple[Callable[[Call], Outcome | None], ...] = (
            self._check_rights,
            self._check_wallet,
            self._check_test_mode,
            self._check_input,
        )
        for check in checks:
            refused = check(call)
            if refused:
                return refused
        outcome = self._look_up(call)
        return self._play_after(call, outcome, fault) if fault else outcome

    def _check_rights(self, call: Call) -> Outcome | None:
        manners, name = self._sandbox.manners, call.operation.name
        if name in manners.denied_operations:
            return self._denied(call)
        if name in manners.unoffered_operations:
            return self._not_offered(call)
        return self._unpriced(call) if name in manners.unpriced_operations else None

    def _denied(self, call: Call) -> Outcome:
        text = "Access denied. You do not have permission to access this resource."
        return Outcome(
            "denied", Reply(403, wire.envelope("error", text, meta=self._meta(call, None)))
        )

    def _unpriced(self, call: Call) -> Outcome:
        text = "We could not find a matching price definition for your request."
        return self._unsold(call, "unpriced", text)

    def _not_offered(self, call: Call) -> Outcome:
        return self._unsold(call, "not_offered", "The specified service does not exist.")

    def _unsold(self, call: Call, word: str, text: str) -> Outcome:
        return Outcome(word, Reply(500, wire.envelope("error", text, None, self._meta(call, None))))

    def _check_wallet(self, call: Call) -> Outcome | None:
        return None if self._sandbox.wallet.balance >= call.price else self._low_wallet(call)

    def _low_wallet(self, call: Call) -> Outcome:
        body = wire.envelope("error", "Insufficient balance", None, self._meta(call, None))
        return Outcome("low_wallet", Reply(402, body))

    def _check_test_mode(self, call: Call) -> Outcome | None:
        mode = self._sandbox.test_mode
        if mode is None:
            return None
        return self._empty_object() if mode == "empty" else self._sample(call, mode)

    def _empty_object(self) -> Outcome:
        return Outcome("test_mode", Reply(200, b"{}"))

    def _sample(self, call: Call, mode: str) -> Outcome:
        """Answer with the record that everybody gets, marked in the way of the mode."""
        sample = call.operation.sample()
        cost = call.price if self._sandbox.manners.mock_cost else 0
        marked = mode == "mock-response"
        if mode == "message":
            sample.message = TEST_MODE_TEXT
        extra: dict[str, object] | None = {"mock-response": _MOCK_TEXT} if marked else None
        body = _written(sample, self._meta(call, cost), extra)
        return Outcome("test_mode", Reply(200, body))

    def _check_input(self, call: Call) -> Outcome | None:
        subject = call.subject
        if subject.missing or subject.no_address:
            word = "missing_field" if subject.missing else "malformed"
            return Outcome(word, Reply(504, b"upstream request timeout", TEXT))
        if subject.refusal:
            body = wire.envelope("error", subject.refusal, meta=self._meta(call, None))
            return Outcome("malformed", Reply(400, body))
        return None

    def _malformed_json(self) -> Outcome:
        page = wire.html_page(400, "SyntaxError: Unexpected token in JSON")
        return Outcome("malformed_json", Reply(400, page, HTML))

    def _look_up(self, call: Call) -> Outcome:
        sandbox = self._sandbox
        answer = call.operation.answer(sandbox, call.subject)
        if answer.http_status != 200:  # noqa: PLR2004 - an error of the operation's own
            body = wire.envelope("error", answer.message, answer.data, self._meta(call, None))
            return Outcome(answer.word, Reply(answer.http_status, body))
        if answer.miss:
            code, _, status = answer.miss.partition("_")
            meta = self._meta(call, None) if answer.meta else None
            body = wire.envelope(status, answer.message, meta=meta)
            return Outcome(answer.word, Reply(int(code), body))
        if call.price:
            sandbox.wallet.charge(call.price)
        body = _written(answer, self._meta(call, call.price), self._remark(call))
        return Outcome(answer.word, Reply(200, body), call.price)

    def _remark(self, call: Call) -> dict[str, object] | None:
        rare = self._sandbox.manners.unknown_keys == "sometimes"
        if rare and SeededRandom("remark", call.subject.identity).below(_REMARK_ONE_IN):
            return None
        return {"deprecation": "A later version of this operation is available"}

    def _meta(self, call: Call, cost: int | None) -> Meta | None:
        """Return cost and balance; calls that are never priced have neither."""
        sandbox = self._sandbox
        if not call.metered:
            return None
        lags = sandbox.manners.balance_lags
        balance = sandbox.wallet.previous if lags else sandbox.wallet.balance
        return Meta(cost, balance)

    def _play_before(self, call: Call, fault: Fault) -> Outcome:
        """Fail a call before it is worked out; nothing is charged."""
        special: dict[str, Callable[[], Outcome]] = {
            "denied": lambda: self._denied(call),
            "unpriced": lambda: self._unpriced(call),
            "not_offered": lambda: self._not_offered(call),
            "low_wallet": lambda: self._low_wallet(call),
            "empty_object": self._empty_object,
            "mock_response": lambda: self._sample(call, "mock-response"),
            "mock_message": lambda: self._sample(call, "message"),
        }
        if fault.name in special:
            return special[fault.name]()
        return Outcome("fault", self._failing(call, fault))

    def _play_after(self, call: Call, outcome: Outcome, fault: Fault) -> Outcome:
        """Damage the delivery of a call that was processed and, if it hit, charged."""
        reply = outcome.reply
        if fault.name == "slow":
            return outcome
        if fault.name == "truncated":
            reply.way = "truncate"
        elif fault.name == "unreadable":
            outcome.reply = Reply(200, b'<!doctype html>{"status":"success","data":', HTML)
        elif fault.name == "huge":
            reply.body = reply.body[:-1] + b',"padding":"' + b"x" * _HUGE + b'"}'
        else:
            outcome.reply = self._failing(call, fault)
        return outcome

    def _failing(self, call: Call, fault: Fault) -> Reply:
        if fault.status == 0:
            silent = fault.name.startswith("timeout")
            return Reply(0, b"", way="cut", silence_s=self._sandbox.manners.silence_s * silent)
        if fault.name == "no_data":
            return Reply(200, wire.envelope("success", "Successful", meta=self._meta(call, None)))
        return self._error_reply(fault.status)

    def _error_reply(self, status: int) -> Reply:
        if status == 429:  # noqa: PLR2004 - too many requests
            body = wire.envelope("error", "Too many requests")
            return Reply(429, body, headers=self._retry_after())
        if status == 500:  # noqa: PLR2004 - internal server error
            return Reply(500, wire.envelope("error", "Something went wrong, please try again"))
        if status == 504:  # noqa: PLR2004 - gateway timeout
            return Reply(504, b"upstream request timeout", TEXT)
        if status == 302:  # noqa: PLR2004 - found
            headers = ((b"location", b"/elsewhere"),)
            return Reply(302, b"", HTML, headers)
        return Reply(status, wire.html_page(status), HTML)

    def _retry_after(self) -> tuple[tuple[bytes, bytes], ...]:
        return ((b"retry-after", f"{self._sandbox.faults.retry_after_s:g}".encode()),)


def _written(answer: Answer, meta: Meta | None, extra: dict[str, object] | None) -> bytes:
    """Write an answer, with its envelope unless it goes bare."""
    if answer.bare:
        return wire.bare(answer.data, extra)
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
