"""The control surface under `/_sandbox/`: how tests and people look in and set things.

Reading and checking of control requests live here; what is set lives in `sandbox.state`. There
is no key: the sandbox is a tool for the loopback address.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.routing import Route

from nightscreen.sandbox import grant_control, wire
from nightscreen.sandbox.bodies import number, object_of, only, whole
from nightscreen.sandbox.faults import ALL, FAULTS, FaultPlan, Scripted
from nightscreen.sandbox.latency import KINDS, NO_WAIT, Profile, fixed, lognormal
from nightscreen.sandbox.ledger import PAGE
from nightscreen.sandbox.loan_book import CANCELLED, WORDS, Steering
from nightscreen.sandbox.manners import OPERATIONS, as_json, changed
from nightscreen.sandbox.money import micros_of, naira_text
from nightscreen.sandbox.openapi import document
from nightscreen.sandbox.scenarios import SCENARIOS
from nightscreen.sandbox.state import Capacity
from nightscreen.sandbox.wallet import PRICES

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive, Scope, Send

    from nightscreen.sandbox.state import Sandbox

    Action = Callable[[Sandbox, dict[str, object]], dict[str, object]]
    View = Callable[[Sandbox, dict[str, str]], dict[str, object]]

_LAST_DAY: Final = 36_500
TEST_MODES: Final = ("mock-response", "empty", "message", "unmarked")
"""The three forms recorded, and the sample record without a mark, as a proxy would pass it on."""
REFUSALS: Final = ("http_503", "http_429", "http_500")


def _operation(value: object) -> str:
    if value not in (*OPERATIONS, ALL):
        raise ValueError(f"operation must be one of {', '.join((*OPERATIONS, ALL))}")
    return str(value)


def _priced(value: str) -> str:
    if value not in PRICES:
        raise ValueError(f"operation must be one of {', '.join(PRICES)}")
    return value


def show_ledger(sandbox: Sandbox, query: dict[str, str]) -> dict[str, object]:
    """Show entries, totals, wallet and peaks."""
    entries: list[dict[str, object]] = []
    following = int(query.get("since", "0"))
    if query.get("totals", "0") not in ("1", "true"):
        limit = int(query.get("limit", str(PAGE)))
        if limit < 1:
            raise ValueError("limit must be 1 or more")
        entries, following = sandbox.ledger.read(following, query.get("operation"), limit)
    return {
        "entries": entries,
        "next": following,
        "more": following < sandbox.ledger.count,
        "totals": sandbox.ledger.totals_json(),
        "wallet": sandbox.wallet_json(),
        "peak_in_flight": sandbox.peak,
        "in_flight": sandbox.in_flight,
    }


def show_state(sandbox: Sandbox, _query: dict[str, str]) -> dict[str, object]:
    """Show everything that can be set."""
    return sandbox.as_json()


def show_document(_sandbox: Sandbox, _query: dict[str, str]) -> dict[str, object]:
    """Show the OpenAPI document."""
    return document()


def reset(sandbox: Sandbox, body: dict[str, object]) -> dict[str, object]:
    """Go back to the beginning, of another scenario if one is named."""
    only(body, "scenario")
    name = body.get("scenario")
    if name is not None and name not in SCENARIOS:
        raise ValueError(f"scenario must be one of {', '.join(SCENARIOS)}")
    sandbox.reset(None if name is None else str(name))
    return sandbox.as_json()


def set_wallet(sandbox: Sandbox, body: dict[str, object]) -> dict[str, object]:
    """Set, top up or drain the wallet, or plan its end."""
    only(body, "balance", "top_up", "drain", "dry_at_call", "drain_every")
    amounts = {
        name: micros_of(body[name]) for name in ("balance", "top_up", "drain") if name in body
    }
    if any(amount < 0 for amount in amounts.values()):
        raise ValueError("amounts must not be below 0")
    every = body.get("drain_every")
    drain_every = None
    if every is not None:
        wanted = object_of(every, "drain_every")
        only(wanted, "calls", "amount")
        drain_every = whole(wanted.get("calls"), "calls", 1), micros_of(wanted.get("amount"))
    dry = body.get("dry_at_call")
    dry_at_call = None if dry is None else whole(dry, "dry_at_call", 1)
    wallet = sandbox.wallet
    actions = {"balance": wallet.set_balance, "top_up": wallet.top_up, "drain": wallet.drain}
    for name, amount in amounts.items():
        actions[name](amount)
    if "drain_every" in body:
        wallet.drain_every = drain_every
    if "dry_at_call" in body:
        wallet.dry_at_call = dry_at_call
    return sandbox.wallet_json()


def set_latency(sandbox: Sandbox, body: dict[str, object]) -> dict[str, object]:
    """Set how long answers take, for one operation or for all."""
    only(body, "kind", "ms", "median_ms", "p99_ms", "operation")
    kind = body.get("kind")
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}")
    profile = _profile(str(kind), body)
    operation = _operation(body.get("operation") or ALL)
    if operation == ALL:
        sandbox.latency.default = profile
        sandbox.latency.by_operation.clear()
    else:
        sandbox.latency.by_operation[operation] = profile
    return sandbox.latency.as_json()


def _profile(kind: str, body: dict[str, object]) -> Profile:
    if kind == "none":
        return NO_WAIT
    if kind == "fixed":
        return fixed(number(body.get("ms"), "ms"))
    return lognormal(
        number(body.get("median_ms"), "median_ms"), number(body.get("p99_ms"), "p99_ms")
    )


def set_faults(sandbox: Sandbox, body: dict[str, object]) -> dict[str, object]:
    """Set the rates of an operation, the script, the seed and the Retry-After."""
    only(body, "operation", "rates", "retry_after_s", "seed", "script")
    plan = sandbox.faults
    fresh = FaultPlan(plan.seed, dict(plan.rates), list(plan.script), plan.retry_after_s)
    if "seed" in body:
        fresh.seed = whole(body["seed"], "seed")
    if "retry_after_s" in body:
        wait = body["retry_after_s"]
        fresh.retry_after_s = None if wait is None else number(wait, "retry_after_s")
    if "rates" in body:
        operation = _operation(body.get("operation") or ALL)
        if operation == ALL:
            fresh.rates.clear()
        fresh.rates[operation] = _rates(object_of(body["rates"], "rates"))
    if "script" in body:
        script = body["script"]
        if not isinstance(script, list):
            raise ValueError("script must be a list")
        fresh.script = [_scripted(object_of(one, "a line of the script")) for one in script]
    sandbox.faults = fresh
    return fresh.as_json()


def _rates(wanted: dict[str, object]) -> dict[str, float]:
    rates = {_fault(name): number(rate, name) for name, rate in wanted.items()}
    if sum(rates.values()) > 1 + 1e-9:
        raise ValueError("the rates together must not be above 1")
    return rates


def _fault(name: object) -> str:
    if name not in FAULTS:
        raise ValueError(f"unknown fault {name!r}; known: {', '.join(FAULTS)}")
    return str(name)


def _scripted(line: dict[str, object]) -> Scripted:
    only(line, "operation", "at_call", "calls", "fault")
    return Scripted(
        _operation(line.get("operation") or ALL),
        whole(line.get("at_call"), "at_call", 1),
        whole(line.get("calls", 1), "calls", 1),
        _fault(line.get("fault")),
    )


def set_mode(sandbox: Sandbox, body: dict[str, object]) -> dict[str, object]:
    """Switch test mode on, in one of its forms, or off."""
    only(body, "test_mode")
    mode = body.get("test_mode")
    if mode is not None and mode not in TEST_MODES:
        raise ValueError(f"test_mode must be null or one of {', '.join(TEST_MODES)}")
    sandbox.test_mode = None if mode is None else str(mode)
    return {"test_mode": sandbox.test_mode}


def set_manners(sandbox: Sandbox, body: dict[str, object]) -> dict[str, object]:
    """Set switches by name."""
    sandbox.manners = changed(sandbox.manners, body)
    return as_json(sandbox.manners)


def set_prices(sandbox: Sandbox, body: dict[str, object]) -> dict[str, object]:
    """Set prices now, or plan them for a later call of their operation."""
    planned: list[tuple[str, int, int]] = []
    for name, value in body.items():
        operation = _priced(name)
        wanted = value if isinstance(value, dict) else {"price": value}
        only(wanted, "price", "at_call")
        price = micros_of(wanted.get("price"))
        if price < 0:
            raise ValueError("a price must not be below 0")
        planned.append((operation, whole(wanted.get("at_call", 0), "at_call"), price))
    for operation, at_call, price in planned:
        if at_call:
            sandbox.prices.plan(operation, at_call, price)
        else:
            sandbox.prices.now[operation] = price
    return {name: naira_text(price) for name, price in sandbox.prices.now.items()}


def set_capacity(sandbox: Sandbox, body: dict[str, object]) -> dict[str, object]:
    """Set or lift the hidden limit of calls in flight."""
    only(body, "max_in_flight", "operation", "refusal")
    operation = _operation(body.get("operation") or ALL)
    refusal = body.get("refusal") or REFUSALS[0]
    if refusal not in REFUSALS:
        raise ValueError(f"refusal must be one of {', '.join(REFUSALS)}")
    limit = body.get("max_in_flight")
    if limit is None:
        sandbox.capacity.pop(operation, None)
    else:
        sandbox.capacity[operation] = Capacity(whole(limit, "max_in_flight", 1), str(refusal))
    shown = sandbox.as_json()["capacity"]
    return {"capacity": shown}


def set_world(sandbox: Sandbox, body: dict[str, object]) -> dict[str, object]:
    """Move the simulated world to a day."""
    only(body, "day")
    day = whole(body.get("day"), "day")
    if day > _LAST_DAY:
        raise ValueError(f"day must be at most {_LAST_DAY}")
    sandbox.day = day
    return {"day": sandbox.day}


def set_clock(sandbox: Sandbox, body: dict[str, object]) -> dict[str, object]:
    """Move the sandbox's own time ahead, so that nobody waits for what runs out."""
    only(body, "advance_s")
    sandbox.advance(number(body.get("advance_s"), "advance_s"))
    return {"ahead_s": sandbox.ahead_s}


def show_otps(sandbox: Sandbox, query: dict[str, str]) -> dict[str, object]:
    """Show the one-time passwords as the customers hold them."""
    return {"otps": sandbox.otps.as_json(sandbox.otp_terms(), query.get("bvn"))}


def show_loans(sandbox: Sandbox, query: dict[str, str]) -> dict[str, object]:
    """Show every loan, or one, with what is known of its fate."""
    wanted, day = query.get("reference"), sandbox.day
    loans = sandbox.loans.loans.values()
    return {
        "loans": [one.shown(one.place(day)) for one in loans if wanted in (None, one.reference)]
    }


def steer_loan(sandbox: Sandbox, body: dict[str, object]) -> dict[str, object]:
    """Put a loan where a test wants it; a running one goes on from there with the days."""
    only(body, "reference", "status", "reject_reason")
    loan = sandbox.loans.loans.get(str(body.get("reference")))
    if loan is None:
        raise ValueError("no loan has this reference; GET /_sandbox/loans lists them")
    status, reason = body.get("status"), body.get("reject_reason")
    if status not in WORDS:
        raise ValueError(f"status must be one of {', '.join(WORDS)}")
    if reason is not None and (status != CANCELLED or not isinstance(reason, str)):
        raise ValueError(f"reject_reason is a text that goes with {CANCELLED}")
    sandbox.loans.steer(loan, Steering(sandbox.day, str(status), reason))
    return loan.shown(loan.place(sandbox.day))


VIEWS: Final[dict[str, View]] = {
    "ledger": show_ledger,
    "state": show_state,
    "grants": grant_control.show_grants,
    "secrets": grant_control.show_secrets,
    "otps": show_otps,
    "loans": show_loans,
    "openapi.json": show_document,
}
ACTIONS: Final[dict[str, Action]] = {
    "reset": reset,
    "wallet": set_wallet,
    "latency": set_latency,
    "faults": set_faults,
    "mode": set_mode,
    "manners": set_manners,
    "prices": set_prices,
    "capacity": set_capacity,
    "world": set_world,
    "grants": grant_control.make_grant,
    "tokens": grant_control.set_tokens,
    "client": grant_control.set_client,
    "clock": set_clock,
    "loans/{reference}": steer_loan,
}


def _refusal(text: str) -> wire.Reply:
    return wire.json_reply(400, {"error": text})


class Looking:
    """A GET of the control surface."""

    def __init__(self, sandbox: Sandbox, view: View) -> None:
        self._sandbox = sandbox
        self._view = view

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with what the view shows."""
        query = dict(Request(scope).query_params)
        if scope["method"] != "GET":
            await wire.deliver(_refusal("only GET"), scope, receive, send)
            return
        try:
            reply = wire.json_reply(200, self._view(self._sandbox, query))
        except ValueError as fault:
            reply = _refusal(str(fault))
        await wire.deliver(reply, scope, receive, send)


class Setting:
    """A POST of the control surface."""

    def __init__(self, sandbox: Sandbox, action: Action) -> None:
        self._sandbox = sandbox
        self._action = action

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Do what the action does and answer with what is now in force."""
        raw = await wire.read_body(receive)
        if scope["method"] != "POST":
            await wire.deliver(_refusal("only POST"), scope, receive, send)
            return
        try:
            body = object_of(json.loads(raw or b"{}", parse_float=Decimal), "the body")
            body.update(scope["path_params"])
            reply = wire.json_reply(200, self._action(self._sandbox, body))
        except ValueError as fault:
            reply = _refusal(str(fault))
        await wire.deliver(reply, scope, receive, send)


class Either:
    """An address that can be looked at and set."""

    def __init__(self, looking: Looking, setting: Setting) -> None:
        self._looking = looking
        self._setting = setting

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Set with POST, look with everything else."""
        chosen = self._setting if scope["method"] == "POST" else self._looking
        await chosen(scope, receive, send)


def routes(sandbox: Sandbox) -> list[Route]:
    """Return the routes of the control surface."""
    both = [
        Route(f"/_sandbox/{name}", Either(Looking(sandbox, view), Setting(sandbox, ACTIONS[name])))
        for name, view in VIEWS.items()
        if name in ACTIONS
    ]
    looking = [Route(f"/_sandbox/{name}", Looking(sandbox, view)) for name, view in VIEWS.items()]
    setting = [
        Route(f"/_sandbox/{name}", Setting(sandbox, action)) for name, action in ACTIONS.items()
    ]
    return both + looking + setting
