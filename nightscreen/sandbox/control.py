"""The control surface under `/_sandbox/`: how tests and people look in and set things.

There is no key: the sandbox is a tool for the loopback address. Requests that a page of another
address makes a browser send are refused, by `Host` and `Origin`. A body that is not understood
changes nothing: it is read whole before anything is set.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import date
from decimal import Decimal
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)
from starlette.requests import Request
from starlette.routing import Route

from nightscreen.sandbox import wire
from nightscreen.sandbox.behaviour_flags import OPERATIONS, as_json, changed
from nightscreen.sandbox.faults import ALL, FAULTS, NO_WAIT, FaultPlan, Scripted, fixed, lognormal
from nightscreen.sandbox.grants import LONGEST_NAME, SCOPES, is_address
from nightscreen.sandbox.ledger import PAGE, PRICES, micros_of, naira_text
from nightscreen.sandbox.lives import KINDS, MONTHS_BEHIND, MOST_MONTHS, truth_of
from nightscreen.sandbox.loan_book import CANCELLED, Steering
from nightscreen.sandbox.people import Account, ecosystem_of, identity_kind, karma_record
from nightscreen.sandbox.state import SCENARIOS, Capacity

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from starlette.types import Receive, Scope, Send

    from nightscreen.sandbox.lives import Life
    from nightscreen.sandbox.people import Person
    from nightscreen.sandbox.state import Sandbox

    Action = Callable[[Sandbox, Any], dict[str, object]]
    View = Callable[[Sandbox, dict[str, str]], dict[str, object]]

_LAST_DAY: Final = 36_500
_MOST: Final = 1_000_000_000


def _one_of(known: Container[str], what: str) -> AfterValidator:
    def check(value: str) -> str:
        if value not in known:
            raise ValueError(f"{value!r} is no {what}; GET /_sandbox/state shows what there is")
        return value

    return AfterValidator(check)


def _address(value: str) -> str:
    if not is_address(value):
        raise ValueError("must be an absolute http address without a fragment")
    return value


def _name(value: str) -> str:
    name = value.strip()
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise ValueError(f"must have 1 to {LONGEST_NAME} printable characters")
    return name


def _day(value: str) -> str:
    date.fromisoformat(value)
    return value


def _not_below_zero(micros: int) -> int:
    if micros < 0:
        raise ValueError("must not be below 0")
    return micros


Micros = Annotated[int, BeforeValidator(micros_of)]
Amount = Annotated[Micros, AfterValidator(_not_below_zero)]
Count = Annotated[int, Field(ge=1, strict=True)]
Whole = Annotated[int, Field(ge=0, strict=True)]
Number = Annotated[float, Field(ge=0, le=_MOST, allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1, strict=True)]
Address = Annotated[Text, AfterValidator(_address)]
Customer = Annotated[Text, AfterValidator(_name)]
OperationName = Annotated[str, _one_of((*OPERATIONS, ALL), "operation")]
FaultName = Annotated[str, _one_of(FAULTS, "fault")]


class Body(BaseModel):
    """A body of a control request: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class ResetBody(Body):
    scenario: Annotated[str, _one_of(SCENARIOS, "scenario")] | None = None


class DrainEvery(Body):
    calls: Count
    amount: Micros


class WalletBody(Body):
    balance: Amount | None = None
    top_up: Amount | None = None
    dry_at_call: Count | None = None
    drain_every: DrainEvery | None = None


class LatencyBody(Body):
    kind: Literal["none", "fixed", "lognormal"]
    ms: Number | None = None
    median_ms: Number | None = None
    p99_ms: Number | None = None
    operation: OperationName = ALL


class ScriptLine(Body):
    operation: OperationName = ALL
    at_call: Count
    calls: Count = 1
    fault: FaultName


class FaultsBody(Body):
    operation: OperationName = ALL
    rates: dict[FaultName, Number] = {}
    retry_after_s: Number = 1.0
    seed: Whole = 0
    script: list[ScriptLine] = []


class ModeBody(Body):
    # the three forms recorded, and the sample record without a mark, as a proxy would pass it on
    test_mode: Literal["mock-response", "empty", "message", "unmarked"] | None = None


class PlannedPrice(Body):
    price: Amount
    at_call: Whole = 0


class CapacityBody(Body):
    max_in_flight: Count | None = None
    operation: OperationName = ALL
    refusal: Literal["http_503", "http_429", "http_500"] = "http_503"


class WorldBody(Body):
    day: Annotated[Whole, Field(le=_LAST_DAY)]


class ClockBody(Body):
    advance_s: Number


class LoanBody(Body):
    reference: str
    status: Literal["PENDING", "RUNNING", "SETTLED", "CANCELLED"]
    reject_reason: Text | None = None


class GrantBody(Body):
    customer: Customer
    scopes: Annotated[
        list[Annotated[str, _one_of(SCOPES, "scope")]],
        Field(min_length=1),
        BeforeValidator(lambda value: value.split() if isinstance(value, str) else value),
    ] = ["transaction:list"]
    redirect_uri: Address | None = None


class TokensBody(Body):
    action: Literal["expire", "revoke", "revoke_refresh"]
    customer: Customer | None = None


class PersonBody(Body):
    first_name: Text | None = None
    middle_name: str | None = None
    last_name: Text | None = None
    gender: Text | None = None
    date_of_birth: Annotated[str, AfterValidator(_day)] | None = None
    phone: Text | None = None
    email: Text | None = None
    bank_code: Annotated[str, Field(pattern=r"^\d{3}$")] | None = None
    account_number: Annotated[str, Field(pattern=r"^\d{10}$")] | None = None
    marital_status: Text | None = None
    state_of_origin: Text | None = None
    address: Text | None = None


class AccountBody(Body):
    bank_code: Annotated[str, Field(pattern=r"^\d{3}$")]
    account_number: Annotated[str, Field(pattern=r"^\d{10}$")]
    exists: bool = True


class ListingBody(Body):
    identity: Text
    listed: bool = True
    record: dict[str, Any] = {}


class LifeBody(Body):
    kind: Annotated[str, _one_of(KINDS, "kind of life")] = "monthly"
    pay: Annotated[int, Field(ge=1000, le=_MOST, strict=True)] = 150_000
    employer: Text = "CRESTLINE FOODS"
    months: Annotated[int, Field(ge=1, le=MOST_MONTHS, strict=True)] = MONTHS_BEHIND
    lost: Annotated[Whole, Field(le=MOST_MONTHS)] = 0


class PeopleBody(Body):
    bvn: Annotated[str, Field(pattern=r"^\d{11}$")] | None = None
    person: PersonBody | None = None
    account: AccountBody | None = None
    listing: ListingBody | None = None
    history: dict[str, Any] | None = None
    customer: Customer | None = None
    life: LifeBody | None = None


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


def show_otps(sandbox: Sandbox, query: dict[str, str]) -> dict[str, object]:
    """Show the one-time passwords as the customers hold them."""
    return {"otps": sandbox.otps.as_json(sandbox.now(), query.get("bvn"))}


def show_loans(sandbox: Sandbox, query: dict[str, str]) -> dict[str, object]:
    """Show every loan, or one, with what is known of its fate."""
    wanted, day = query.get("reference"), sandbox.day
    loans = sandbox.loans.loans.values()
    return {
        "loans": [loan.shown(loan.place(day)) for loan in loans if wanted in (None, loan.reference)]
    }


def reset(sandbox: Sandbox, body: ResetBody) -> dict[str, object]:
    """Go back to the beginning, of another scenario if one is named."""
    sandbox.reset(body.scenario)
    return sandbox.as_json()


def set_wallet(sandbox: Sandbox, body: WalletBody) -> dict[str, object]:
    """Set or top up the wallet, or plan how others use it."""
    wallet = sandbox.wallet
    if body.balance is not None:
        wallet.set_balance(body.balance)
    wallet.top_up(body.top_up or 0)
    if "drain_every" in body.model_fields_set:
        every = body.drain_every
        wallet.drain_every = (every.calls, every.amount) if every else None
    if "dry_at_call" in body.model_fields_set:
        wallet.dry_at_call = body.dry_at_call
    return sandbox.wallet_json()


def set_latency(sandbox: Sandbox, body: LatencyBody) -> dict[str, object]:
    """Set how long answers take, for one operation or for all."""
    profile = NO_WAIT
    if body.kind == "fixed":
        if body.ms is None:
            raise ValueError("fixed latency needs ms")
        profile = fixed(body.ms)
    elif body.kind == "lognormal":
        profile = lognormal(body.median_ms or 0, body.p99_ms or 0)
    if body.operation == ALL:
        sandbox.latency.default = profile
        sandbox.latency.by_operation.clear()
    else:
        sandbox.latency.by_operation[body.operation] = profile
    return sandbox.latency.as_json()


def set_faults(sandbox: Sandbox, body: FaultsBody) -> dict[str, object]:
    """Set the rates of an operation, the script, the seed and the Retry-After."""
    if sum(body.rates.values()) > 1 + 1e-9:
        raise ValueError("the rates together must not be above 1")
    plan, given = sandbox.faults, body.model_fields_set
    fresh = FaultPlan(plan.seed, dict(plan.rates), list(plan.script), plan.retry_after_s)
    if "seed" in given:
        fresh.seed = body.seed
    if "retry_after_s" in given:
        fresh.retry_after_s = body.retry_after_s
    if "rates" in given:
        if body.operation == ALL:
            fresh.rates.clear()
        fresh.rates[body.operation] = body.rates
    if "script" in given:
        fresh.script = [
            Scripted(line.operation, line.at_call, line.calls, line.fault) for line in body.script
        ]
    sandbox.faults = fresh
    return fresh.as_json()


def set_mode(sandbox: Sandbox, body: ModeBody) -> dict[str, object]:
    """Switch test mode on, in one of its forms, or off."""
    sandbox.test_mode = body.test_mode
    return {"test_mode": sandbox.test_mode}


def set_manners(sandbox: Sandbox, body: dict[str, object]) -> dict[str, object]:
    """Set switches by name."""
    sandbox.manners = changed(sandbox.manners, body)
    return as_json(sandbox.manners)


def set_prices(sandbox: Sandbox, body: dict[str, PlannedPrice | Amount]) -> dict[str, object]:
    """Set prices now, or plan them for a later call of their operation."""
    for operation, wanted in body.items():
        if isinstance(wanted, int):
            sandbox.prices.now[operation] = wanted
        elif wanted.at_call:
            sandbox.prices.plan(operation, wanted.at_call, wanted.price)
        else:
            sandbox.prices.now[operation] = wanted.price
    return {name: naira_text(price) for name, price in sandbox.prices.now.items()}


def set_capacity(sandbox: Sandbox, body: CapacityBody) -> dict[str, object]:
    """Set or lift the hidden limit of calls in flight."""
    if body.max_in_flight is None:
        sandbox.capacity.pop(body.operation, None)
    else:
        sandbox.capacity[body.operation] = Capacity(body.max_in_flight, body.refusal)
    return {"capacity": sandbox.as_json()["capacity"]}


def set_world(sandbox: Sandbox, body: WorldBody) -> dict[str, object]:
    """Move the simulated world to a day."""
    sandbox.day = body.day
    return {"day": sandbox.day}


def set_clock(sandbox: Sandbox, body: ClockBody) -> dict[str, object]:
    """Move the sandbox's own time ahead, so that nobody waits for what runs out."""
    sandbox.advance(body.advance_s)
    return {"ahead_s": sandbox.ahead_s}


def set_loan_state(sandbox: Sandbox, body: LoanBody) -> dict[str, object]:
    """Put a loan where a test wants it; a running one goes on from there with the days."""
    loan = sandbox.loans.loans.get(body.reference)
    if loan is None:
        raise ValueError("no loan has this reference; GET /_sandbox/loans lists them")
    if body.reject_reason is not None and body.status != CANCELLED:
        raise ValueError(f"reject_reason is a text that goes with {CANCELLED}")
    loan.steer(Steering(sandbox.day, body.status, body.reject_reason))
    return loan.shown(loan.place(sandbox.day))


def make_grant(sandbox: Sandbox, body: GrantBody) -> dict[str, object]:
    """Let a customer consent without a browser, and return the code.

    Without a `redirect_uri` the exchange may name any address, and binds the grant to it.
    """
    code = sandbox.grants.allow(
        body.customer,
        tuple(dict.fromkeys(body.scopes)),
        client_id=sandbox.client.client_id,
        redirect_uri=body.redirect_uri,
        now=sandbox.now(),
    )
    return {"code": code, "customer": body.customer, "redirect_uri": body.redirect_uri}


def _check_plan(body: PeopleBody) -> None:
    """Refuse what cannot be planted, before anything is.

    A field that the simulator's records do not have is a slip: it would leave another made up.
    """
    bvn, given = body.bvn, body.model_fields_set
    if not given - {"bvn"}:
        raise ValueError("name what to plant: person, account, listing, history, customer or life")
    needs = [name for name in ("person", "history", "account") if name in given]
    if bvn is None and needs:
        raise ValueError(f"{needs[0]} needs the bvn of its person")
    if body.life and body.customer is None:
        raise ValueError("life needs the customer, the username of who lives it")
    records = []
    if body.listing:
        identity = body.listing.identity
        known = karma_record(identity, identity_kind(identity) or "bvn")
        records.append(("listing.record", body.listing.record, known))
    if bvn and body.history:
        records.append(("history", body.history, ecosystem_of(bvn, known=True) or {}))
    for what, fields, known in records:
        for name in fields.keys() - known.keys():
            raise ValueError(f"{what} has no field {name}; it has {', '.join(sorted(known))}")


def plant(sandbox: Sandbox, body: PeopleBody) -> dict[str, object]:
    """Plant a person, an account, a listing, a history or a life under any identifier."""
    _check_plan(body)
    planted, bvn = sandbox.planted, body.bvn
    shown: dict[str, object] = {"bvn": bvn}
    if bvn and body.person:
        fields = body.person.model_dump(exclude_unset=True, exclude_none=True)
        shown["person"] = _plain(planted.plant_person(bvn, fields))
        place = planted.people[bvn].account
        if {"bank_code", "account_number"} & set(fields):
            planted.holders[place] = bvn
    if bvn and body.account:
        place = Account(body.account.bank_code, body.account.account_number)
        planted.holders[place] = bvn if body.account.exists else None
        shown["account"] = planted.account(*place, sandbox.day, masked=False)
    if bvn and "history" in body.model_fields_set:
        planted.histories[bvn] = body.history
        shown["history"] = planted.history(bvn, sandbox.day)
    if body.listing:
        identity, kind = body.listing.identity, identity_kind(body.listing.identity) or "bvn"
        record = {**karma_record(identity, kind), **body.listing.record}
        planted.listings[identity] = record if body.listing.listed else None
        shown["listing"] = planted.listings[identity]
    if body.customer:
        plan = None if body.life is None else body.life.model_dump()
        owner = planted.plant_life(body.customer, bvn, plan)
        sandbox.linked.forget(body.customer)
        shown |= {"customer": body.customer, "life": _plain(owner.life)}
    return shown


def _plain(value: Person | Life) -> dict[str, object]:
    return {
        name: setting.isoformat() if isinstance(setting, date) else setting
        for name, setting in asdict(value).items()
    }


def show_truth(sandbox: Sandbox, query: dict[str, str]) -> dict[str, object]:
    """Show the truth about a customer's life on day 0, only for tests."""
    if "customer" not in query:
        raise ValueError("truth needs ?customer=USERNAME")
    customer = query["customer"]
    return {"truth": truth_of(customer, sandbox.planted.owner(customer).life)._asdict()}


def set_tokens(sandbox: Sandbox, body: TokensBody) -> dict[str, object]:
    """Expire access tokens or revoke grants, of one customer or, where none is named, of all."""
    if body.action == "expire":
        return {"expired": sandbox.grants.expire(body.customer, sandbox.now())}
    keep = body.action == "revoke_refresh"
    return {"revoked": sandbox.grants.revoke(body.customer, sandbox.now(), keep_access=keep)}


VIEWS: Final[dict[str, View]] = {
    "ledger": show_ledger,
    "state": lambda sandbox, _query: sandbox.as_json(),
    "grants": lambda sandbox, query: sandbox.grants.as_json(query.get("customer"), sandbox.now()),
    # every code and token ever issued, for tests that search for them elsewhere
    "secrets": lambda sandbox, _query: {**sandbox.grants.secrets_json()},
    "otps": show_otps,
    "truth": show_truth,
    "loans": show_loans,
}
_SWITCHES: Final = TypeAdapter(dict[str, Any])
_PRICES: Final = TypeAdapter(
    dict[Annotated[str, _one_of(PRICES, "priced operation")], PlannedPrice | Amount]
)
ACTIONS: Final[dict[str, tuple[Action, TypeAdapter[Any]]]] = {
    "reset": (reset, TypeAdapter(ResetBody)),
    "wallet": (set_wallet, TypeAdapter(WalletBody)),
    "latency": (set_latency, TypeAdapter(LatencyBody)),
    "faults": (set_faults, TypeAdapter(FaultsBody)),
    "mode": (set_mode, TypeAdapter(ModeBody)),
    "manners": (set_manners, _SWITCHES),
    "prices": (set_prices, _PRICES),
    "capacity": (set_capacity, TypeAdapter(CapacityBody)),
    "world": (set_world, TypeAdapter(WorldBody)),
    "grants": (make_grant, TypeAdapter(GrantBody)),
    "people": (plant, TypeAdapter(PeopleBody)),
    "tokens": (set_tokens, TypeAdapter(TokensBody)),
    "clock": (set_clock, TypeAdapter(ClockBody)),
    "loans/{reference}": (set_loan_state, TypeAdapter(LoanBody)),
}


def act(sandbox: Sandbox, name: str, body: dict[str, object]) -> dict[str, object]:
    """Do what a POST to an address does.

    Raises:
        ValueError: the body is not understood; nothing was changed.
    """
    action, adapter = ACTIONS[name]
    try:
        wanted = adapter.validate_python(body)
    except ValidationError as error:
        raise ValueError(_reasons(error)) from None
    return action(sandbox, wanted)


class ControlPage:
    """One address of the control surface: a GET looks, a POST sets."""

    def __init__(self, sandbox: Sandbox, name: str) -> None:
        self._sandbox = sandbox
        self._name = name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with what is seen or now in force, or a 400 or 403 with the reason."""
        foreign = _foreign(Request(scope))
        if foreign:
            reply = wire.json_reply(403, {"error": foreign})
            await wire.deliver(reply, scope, receive, send)
            return
        raw = await wire.read_body(receive)
        try:
            reply = wire.json_reply(200, self._answer(scope, raw))
        except ValueError as error:
            reply = wire.json_reply(400, {"error": str(error)})
        await wire.deliver(reply, scope, receive, send)

    def _answer(self, scope: Scope, raw: bytes) -> dict[str, object]:
        if scope["method"] == "POST" and self._name in ACTIONS:
            body = json.loads(raw or b"{}", parse_float=Decimal)
            if not isinstance(body, dict):
                raise ValueError("the body must be an object")
            return act(self._sandbox, self._name, {**body, **scope["path_params"]})
        if scope["method"] == "GET" and self._name in VIEWS:
            return VIEWS[self._name](self._sandbox, dict(Request(scope).query_params))
        raise ValueError("only GET" if self._name in VIEWS else "only POST")


def _foreign(request: Request) -> str:
    """Say why a request is not one of this machine's own; empty where it is.

    A name with a dot may be somebody's who has it lead here (DNS rebinding); an address, localhost
    or a bare name, as containers have them, may not. A browser names the page in `Origin`.
    """
    host = request.headers.get("host", "")
    name = urlsplit(f"//{host}").hostname or ""
    try:
        ip_address(name)
    except ValueError:
        if not name or "." in name:
            return "this Host is refused: use the address the sandbox printed, or localhost"
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != host:
        return "this Origin is refused: only the sandbox's own pages may steer it"
    return ""


def _reasons(error: ValidationError) -> str:
    """Say which fields are wrong and why, without the values."""
    return "; ".join(
        f"{'.'.join(str(part) for part in mistake['loc'])}: {mistake['msg']}"
        for mistake in error.errors(include_input=False, include_url=False)
    )


def routes(sandbox: Sandbox) -> list[Route]:
    """Return the routes of the control surface."""
    return [Route(f"/_sandbox/{name}", ControlPage(sandbox, name)) for name in {**VIEWS, **ACTIONS}]
