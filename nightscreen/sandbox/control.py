"""The control surface under `/_sandbox/`: how tests and people look in and set things.

There is no key: the sandbox is a tool for the loopback address. Requests that a page of another
address makes a browser send are refused, by `Host` and `Origin`. A body that is not understood
changes nothing: it is read whole before anything is set.
"""

from __future__ import annotations

from datetime import date
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from fastapi import APIRouter, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)

from nightscreen.sandbox import wire
from nightscreen.sandbox.behaviour_flags import OPERATIONS, BehaviourFlags
from nightscreen.sandbox.faults import ALL, FAULTS, NO_WAIT, Scripted, fixed, lognormal
from nightscreen.sandbox.grants import LONGEST_NAME, SCOPES, is_address
from nightscreen.sandbox.ledger import PRICES, micros_of, naira_text
from nightscreen.sandbox.lives import Life, truth_of
from nightscreen.sandbox.people import Person, ecosystem_of, identity_kind, karma_record
from nightscreen.sandbox.state import SCENARIOS, Here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from starlette.types import Receive, Scope, Send

_BASE: Final = "/_sandbox"
_MOST: Final = 1_000_000_000
_REFUSED: Final = 400

router: Final = APIRouter(prefix=_BASE, tags=["control"])


def _json(value: object, status: int = 200) -> Response:
    return Response(wire.dumps(value), status, media_type="application/json")


def _one_of(known: Iterable[str], what: str) -> AfterValidator:
    names = frozenset(known)
    return _checked(
        names.__contains__, f"this is no {what}; GET /_sandbox/state and /docs show what there is"
    )


def _checked(right: Callable[[str], bool], says: str) -> AfterValidator:
    def check(value: str) -> str:
        if not right(value):
            raise ValueError(says)
        return value

    return AfterValidator(check)


def _micros(value: object) -> int:
    return micros_of(str(value) if isinstance(value, float) else value)


def _is_name(value: str) -> bool:
    return bool(value) and len(value) <= LONGEST_NAME and value.isprintable()


Amount = Annotated[int, BeforeValidator(_micros), Field(ge=0)]
Count = Annotated[int, Field(ge=1, strict=True)]
Whole = Annotated[int, Field(ge=0, strict=True)]
Number = Annotated[float, Field(ge=0, le=_MOST, allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1, strict=True)]
Digits3 = Annotated[str, Field(pattern=r"^\d{3}$")]
Digits10 = Annotated[str, Field(pattern=r"^\d{10}$")]
Customer = Annotated[
    Text,
    AfterValidator(str.strip),
    _checked(_is_name, f"must have 1 to {LONGEST_NAME} printable characters"),
]
OperationName = Annotated[str, _one_of((*OPERATIONS, ALL), "operation")]
FaultName = Annotated[str, _one_of(FAULTS, "fault")]


class Body(BaseModel):
    """A body of a control request: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class ResetBody(Body):
    scenario: Annotated[str, _one_of(SCENARIOS, "scenario")] | None = None


class DrainEvery(Body):
    calls: Count
    amount: Amount


class WalletBody(Body):
    balance: Amount | None = None
    top_up: Amount | None = None
    drain_every: DrainEvery | None = None


class LatencyBody(Body):
    kind: Literal["none", "fixed", "lognormal"]
    ms: Number | None = None
    median_ms: Number = 0
    p99_ms: Number = 0
    operation: OperationName = ALL


class ScriptLine(Body):
    operation: OperationName = ALL
    at_call: Count
    calls: Count = 1
    fault: FaultName


class FaultsBody(Body):
    operation: OperationName = ALL
    rates: dict[FaultName, Number] | None = None
    retry_after_s: Number | None = None
    seed: Whole | None = None
    script: list[ScriptLine] | None = None


class ModeBody(Body):
    # the three forms recorded, and the sample record without a mark, as a proxy would pass it on
    test_mode: Literal["mock-response", "empty", "message", "unmarked"] | None = None


class WorldBody(Body):
    day: Annotated[Whole, Field(le=36_500)]


class ClockBody(Body):
    advance_s: Number


class LoanStateBody(Body):
    status: Literal["PENDING", "RUNNING", "SETTLED", "CANCELLED"]
    reject_reason: Text | None = None


class GrantBody(Body):
    customer: Customer
    scopes: Annotated[list[Annotated[str, _one_of(SCOPES, "scope")]], Field(min_length=1)] = [
        "transaction:list"
    ]
    redirect_uri: (
        Annotated[Text, _checked(is_address, "must be an absolute http address, no fragment")]
        | None
    ) = None


class TokensBody(Body):
    action: Literal["expire", "revoke", "revoke_refresh"]
    customer: Customer | None = None


class PersonBody(Body):
    first_name: Text | None = None
    middle_name: str | None = None
    last_name: Text | None = None
    gender: Text | None = None
    date_of_birth: date | None = None
    phone: Text | None = None
    email: Text | None = None
    bank_code: Digits3 | None = None
    account_number: Digits10 | None = None
    marital_status: Text | None = None
    state_of_origin: Text | None = None
    address: Text | None = None


class AccountBody(Body):
    bank_code: Digits3
    account_number: Digits10
    exists: bool = True


class ListingBody(Body):
    identity: Text
    listed: bool = True
    record: dict[str, Any] = {}


class PeopleBody(Body):
    bvn: Annotated[str, Field(pattern=r"^\d{11}$")] | None = None
    person: PersonBody | None = None
    account: AccountBody | None = None
    listing: ListingBody | None = None
    history: dict[str, Any] | None = None
    customer: Customer | None = None
    life: Life | None = None


@router.get("/ledger")
async def show_ledger(
    sandbox: Here,
    since: Annotated[int, Query(ge=0)] = 0,
    operation: str | None = None,
    totals: bool = False,
) -> Response:
    """Show entries after a sequence number, totals, wallet and peaks."""
    return _json(
        {
            "entries": [] if totals else sandbox.ledger.read(since, operation),
            "next": sandbox.ledger.count,
            "totals": sandbox.ledger.totals_json(),
            "wallet": sandbox.wallet.as_json(),
            "peak_in_flight": sandbox.peak,
            "in_flight": sandbox.in_flight,
        }
    )


@router.get("/state")
async def show_state(sandbox: Here) -> Response:
    """Show everything that can be set, as it is."""
    return _json(sandbox.as_json())


@router.get("/grants")
async def show_grants(sandbox: Here, customer: str | None = None) -> Response:
    """Show grants and what was counted, without codes and tokens."""
    return _json(sandbox.grants.as_json(customer, sandbox.now()))


@router.get("/secrets")
async def show_secrets(sandbox: Here) -> Response:
    """Show every code and token ever issued, for tests that search for them elsewhere."""
    return _json(sandbox.grants.secrets_json())


@router.get("/otps")
async def show_otps(sandbox: Here, bvn: str | None = None) -> Response:
    """Show the one-time passwords as the customers hold them."""
    return _json({"otps": sandbox.otps.as_json(sandbox.now(), bvn)})


@router.get("/truth")
async def show_truth(sandbox: Here, customer: str) -> Response:
    """Show the truth about a customer's life on day 0, only for tests."""
    return _json({"truth": truth_of(customer, sandbox.planted.owner(customer).life)._asdict()})


@router.get("/loans")
async def show_loans(sandbox: Here, reference: str | None = None) -> Response:
    """Show every loan, or one, with the fate in store for it."""
    loans = sandbox.loans.loans.values()
    wanted = (loan for loan in loans if reference in (None, loan.reference))
    return _json({"loans": [loan.shown(sandbox.day) for loan in wanted]})


@router.post("/reset")
async def reset(sandbox: Here, body: ResetBody | None = None) -> Response:
    """Go back to the beginning, of another scenario if one is named."""
    sandbox.reset(body.scenario if body else None)
    return _json(sandbox.as_json())


@router.post("/wallet")
async def set_wallet(sandbox: Here, body: WalletBody) -> Response:
    """Set or top up the wallet, or plan how others use it."""
    wallet = sandbox.wallet
    if body.balance is not None:
        wallet.set_balance(body.balance)
    wallet.top_up(body.top_up or 0)
    if "drain_every" in body.model_fields_set:
        every = body.drain_every
        wallet.drain_every = (every.calls, every.amount) if every else None
    return _json(wallet.as_json())


@router.post("/latency")
async def set_latency(sandbox: Here, body: LatencyBody) -> Response:
    """Set how long answers take, for one operation or for all."""
    profile = NO_WAIT
    if body.kind == "fixed":
        if body.ms is None:
            raise ValueError("fixed latency needs ms")
        profile = fixed(body.ms)
    elif body.kind == "lognormal":
        profile = lognormal(body.median_ms, body.p99_ms)
    if body.operation == ALL:
        sandbox.latency.default = profile
        sandbox.latency.by_operation.clear()
    else:
        sandbox.latency.by_operation[body.operation] = profile
    return _json(sandbox.latency.as_json())


@router.post("/faults")
async def set_faults(sandbox: Here, body: FaultsBody) -> Response:
    """Set the rates of an operation, the script, the seed and the Retry-After."""
    plan = sandbox.faults
    if body.rates is not None:
        if sum(body.rates.values()) > 1 + 1e-9:
            raise ValueError("the rates together must not be above 1")
        kept = {} if body.operation == ALL else plan.rates
        plan.rates = {**kept, body.operation: body.rates}
    if body.seed is not None:
        plan.seed = body.seed
    if body.retry_after_s is not None:
        plan.retry_after_s = body.retry_after_s
    if body.script is not None:
        plan.script = [Scripted(**line.model_dump()) for line in body.script]
    return _json(plan.as_json())


@router.post("/mode")
async def set_mode(sandbox: Here, body: ModeBody) -> Response:
    """Switch test mode on, in one of its forms, or off."""
    sandbox.test_mode = body.test_mode
    return _json({"test_mode": sandbox.test_mode})


@router.post("/manners")
async def set_manners(sandbox: Here, body: dict[str, Any]) -> Response:
    """Set switches by name."""
    known = sandbox.manners.model_dump()
    sandbox.manners = BehaviourFlags.model_validate({**known, **body})
    return _json(sandbox.manners.model_dump())


@router.post("/prices")
async def set_prices(
    sandbox: Here,
    body: dict[Annotated[str, _one_of(PRICES, "priced operation")], Amount],
) -> Response:
    """Set prices, from the next call on."""
    sandbox.prices |= body
    return _json({name: naira_text(price) for name, price in sandbox.prices.items()})


@router.post("/world")
async def set_world(sandbox: Here, body: WorldBody) -> Response:
    """Move the simulated world to a day."""
    sandbox.day = body.day
    return _json({"day": sandbox.day})


@router.post("/clock")
async def set_clock(sandbox: Here, body: ClockBody) -> Response:
    """Move the sandbox's own time ahead, so that nobody waits for what runs out."""
    sandbox.ahead_s += body.advance_s
    return _json({"ahead_s": sandbox.ahead_s})


@router.post("/loans/{reference}")
async def set_loan_state(sandbox: Here, reference: str, body: LoanStateBody) -> Response:
    """Put a loan where a test wants it; a running one goes on from there with the days."""
    loan = sandbox.loans.loans.get(reference)
    if loan is None:
        raise ValueError("no loan has this reference; GET /_sandbox/loans lists them")
    if body.reject_reason is not None and body.status != "CANCELLED":
        raise ValueError("reject_reason is a text that goes with CANCELLED")
    loan.steer(sandbox.day, body.status, body.reject_reason)
    return _json(loan.shown(sandbox.day))


@router.post("/grants")
async def make_grant(sandbox: Here, body: GrantBody) -> Response:
    """Let a customer consent without a browser, and return the code.

    Without a `redirect_uri` the exchange may name any address, and binds the grant to it.
    """
    scopes = tuple(dict.fromkeys(body.scopes))
    code = sandbox.grants.allow(body.customer, scopes, body.redirect_uri, sandbox.now())
    return _json({"code": code, "customer": body.customer, "redirect_uri": body.redirect_uri})


@router.post("/tokens")
async def set_tokens(sandbox: Here, body: TokensBody) -> Response:
    """Expire access tokens or revoke grants, of one customer or, where none is named, of all."""
    grants, now = sandbox.grants.of(body.customer), sandbox.now()
    if body.action == "expire":
        return _json({"expired": sum(grant.expire(now) for grant in grants)})
    live = [grant for grant in grants if not grant.revoked]
    for grant in live:
        grant.revoke(now, keep_access=body.action == "revoke_refresh")
    return _json({"revoked": len(live)})


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
        known = karma_record(body.listing.identity, "bvn")
        records.append(("listing.record", body.listing.record, known))
    if bvn and body.history:
        records.append(("history", body.history, ecosystem_of(bvn, known=True) or {}))
    for what, fields, known in records:
        for name in fields.keys() - known.keys():
            raise ValueError(f"{what} has no field {name}; it has {', '.join(sorted(known))}")


@router.post("/people")
async def plant(sandbox: Here, body: PeopleBody) -> Response:
    """Plant a person, an account, a listing, a history or a life under any identifier."""
    _check_plan(body)
    planted, bvn = sandbox.planted, body.bvn
    shown: dict[str, object] = {"bvn": bvn}
    if bvn and body.person:
        fields = body.person.model_dump(exclude_none=True)
        person = planted.plant_person(bvn, fields)
        shown["person"] = TypeAdapter(Person).dump_python(person, mode="json")
    if bvn and body.account:
        place = (body.account.bank_code, body.account.account_number)
        planted.holders[place] = bvn if body.account.exists else None
        shown["account"] = planted.account(*place, sandbox.day, masked=False)
    if bvn and "history" in body.model_fields_set:
        planted.histories[bvn] = body.history
        shown["history"] = planted.history(bvn, sandbox.day)
    if body.listing:
        identity, listed = body.listing.identity, body.listing.listed
        record = {**karma_record(identity, identity_kind(identity) or "bvn"), **body.listing.record}
        shown["listing"] = planted.listings[identity] = record if listed else None
    if body.customer:
        owner = planted.plant_life(body.customer, bvn, body.life)
        shown |= {"customer": body.customer, "life": TypeAdapter(Life).dump_python(owner.life)}
    return _json(shown)


async def refused(_request: Request, error: Exception) -> Response:
    """Say which fields are wrong and why, without the values."""
    if not isinstance(error, ValidationError | RequestValidationError):
        return _json({"error": str(error)}, _REFUSED)
    mistakes = [
        f"{'.'.join(str(part) for part in mistake['loc'] if part != 'body')}: {mistake['msg']}"
        for mistake in error.errors()
    ]
    return _json({"error": "; ".join(mistakes)}, _REFUSED)


async def keep_out(scope: Scope, receive: Receive, send: Send) -> bool:
    """Refuse a foreign control request, and say whether it was; make ready what is let in."""
    if not scope["path"].startswith(_BASE):
        return False
    foreign = _foreign(Request(scope))
    if foreign:
        await _json({"error": foreign}, 403)(scope, receive, send)
    # a body is JSON, whatever the caller's tool calls it: curl -d says it is a form
    kept = [pair for pair in scope["headers"] if pair[0] != b"content-type"]
    scope["headers"] = [*kept, (b"content-type", b"application/json")]
    return bool(foreign)


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
