"""The control surface under `/_sandbox/`: tests and people use it to see state and change settings.

It needs no key, because the sandbox is a tool for the loopback address. Requests that another
site's page makes a browser send are refused, by `Host` and `Origin`. A body is parsed completely
before anything is changed, so a wrong one changes nothing.
"""

from __future__ import annotations

from dataclasses import asdict
from decimal import Decimal
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from fastapi import APIRouter, Body, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError, model_validator

from nightscreen.sandbox import faults, people, wire
from nightscreen.sandbox.faults import ALL, BehaviourFlags, Profile, Scripted, Setting, one_of
from nightscreen.sandbox.grants import LONGEST_NAME, SCOPES, is_address, is_username
from nightscreen.sandbox.ledger import PRICES, Amount, micros_of, naira_text
from nightscreen.sandbox.lives import Life, truth_of
from nightscreen.sandbox.state import SCENARIOS, Here
from nightscreen.sandbox.transactions import Owner

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

_BASE: Final = "/_sandbox"
_REFUSED: Final = 400

_PERSON: Final = TypeAdapter(people.Person)

_REFUSALS: Final[dict[int | str, dict[str, Any]]] = {
    "4XX": {
        "description": "what is wrong; nothing was changed",
        "content": {"application/json": {}},
    }
}
router: Final = APIRouter(prefix=_BASE, tags=["control"], responses=_REFUSALS)


def _json(value: object, status: int = 200) -> Response:
    return Response(wire.written(value), status, media_type="application/json")


def _address(value: str) -> str:
    if not is_address(value):
        raise ValueError("must be an absolute http address, no fragment")
    return value


def _name(value: str) -> str:
    if not is_username(value):
        raise ValueError(f"must have 1 to {LONGEST_NAME} printable characters")
    return value


# a field that no record has is refused: the made-up one would stay
ListingField = Annotated[str, one_of(people.karma_record("", "bvn"), "field of a listing")]
HistoryField = Annotated[
    str, one_of(people.ecosystem_of("22123456789", known=True) or (), "field of a history")
]
Customer = Annotated[people.Text, AfterValidator(str.strip), AfterValidator(_name)]
Number = Annotated[float, Field(ge=0, le=1_000_000_000, allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=0, strict=True)]
ScenarioName = Annotated[str, one_of(SCENARIOS, "scenario")]
ScopeName = Annotated[str, one_of(SCOPES, "scope")]
Part = Body(embed=True)


class WalletBody(Setting):
    balance: Amount | None = None
    top_up: Amount = Decimal(0)


class LatencyBody(Profile):
    operation: faults.OperationName = ALL


class FaultsBody(Setting):
    operation: faults.OperationName = ALL
    rates: dict[faults.FaultName, Number] | None = None
    retry_after_s: Number | None = None
    seed: Whole | None = None
    script: list[Scripted] | None = None


class GrantBody(Setting):
    customer: Customer
    scopes: list[ScopeName] = Field(["transaction:list"], min_length=1)
    redirect_uri: Annotated[people.Text, AfterValidator(_address)] | None = None


class TokensBody(Setting):
    action: Literal["expire", "revoke", "revoke_refresh"]
    customer: Customer | None = None


class PlantedAccount(Setting):
    bank_code: people.BankCode
    account_number: people.AccountNumber
    exists: bool = True


class PlantedListing(Setting):
    identity: people.Text
    listed: bool = True
    record: dict[ListingField, Any] = Field({}, description="fields as an answer has them")


class Planting(Setting):
    bvn: people.Bvn | None = None
    person: dict[str, Any] | None = Field(None, description="fields of a person")
    account: PlantedAccount | None = None
    listing: PlantedListing | None = None
    history: dict[HistoryField, Any] | None = None
    customer: Customer | None = None
    life: Life | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        given = self.model_fields_set
        if not given - {"bvn"}:
            raise ValueError(
                "name what to plant: person, account, listing, history, customer or life"
            )
        needs = [name for name in ("person", "history", "account") if name in given]
        if self.bvn is None and needs:
            raise ValueError(f"{needs[0]} needs the bvn of its person")
        if self.life and self.customer is None:
            raise ValueError("life needs the customer, the username of who lives it")
        return self


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
    return _json({"loans": sandbox.loans.shown(sandbox.day, reference)})


@router.post("/reset")
async def reset(sandbox: Here, scenario: Annotated[ScenarioName | None, Part] = None) -> Response:
    """Go back to the beginning, of another scenario if one is named."""
    sandbox.reset(scenario)
    return _json(sandbox.as_json())


@router.post("/wallet")
async def set_wallet(sandbox: Here, body: WalletBody) -> Response:
    """Set or top up the wallet."""
    wallet = sandbox.wallet
    if body.balance is not None:
        wallet.set_balance(micros_of(body.balance))
    wallet.top_up(micros_of(body.top_up))
    return _json(wallet.as_json())


@router.post("/latency")
async def set_latency(sandbox: Here, body: LatencyBody) -> Response:
    """Set how long answers take, for one operation or for all."""
    if body.operation == ALL:
        sandbox.latency.default = body
        sandbox.latency.by_operation.clear()
    else:
        sandbox.latency.by_operation[body.operation] = body
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
    for name in ("seed", "retry_after_s", "script"):
        if (given := getattr(body, name)) is not None:
            setattr(plan, name, given)
    return _json(asdict(plan))


@router.post("/mode")
async def set_mode(
    sandbox: Here,
    # the three forms recorded, and the sample record without a mark, as a proxy would pass it on
    test_mode: Annotated[
        Literal["mock-response", "empty", "message", "unmarked"] | None, Part
    ] = None,
) -> Response:
    """Switch test mode on, in one of its forms, or off."""
    sandbox.test_mode = test_mode
    return _json({"test_mode": test_mode})


@router.post("/manners")
async def set_manners(sandbox: Here, body: dict[str, Any]) -> Response:
    """Set switches by name."""
    known = sandbox.manners.model_dump()
    sandbox.manners = BehaviourFlags.model_validate({**known, **body})
    return _json(sandbox.manners.model_dump())


@router.post("/prices")
async def set_prices(
    sandbox: Here,
    body: dict[Annotated[str, one_of(PRICES, "priced operation")], Amount],
) -> Response:
    """Set prices, from the next call on."""
    sandbox.prices |= {name: micros_of(price) for name, price in body.items()}
    return _json({name: naira_text(price) for name, price in sandbox.prices.items()})


@router.post("/world")
async def set_world(
    sandbox: Here, day: Annotated[int, Field(ge=0, le=36_500, strict=True), Part]
) -> Response:
    """Move the simulated world to a day."""
    sandbox.day = day
    return _json({"day": day})


@router.post("/clock")
async def set_clock(sandbox: Here, advance_s: Annotated[Number, Part]) -> Response:
    """Move the sandbox's own time ahead, so that nobody waits for what runs out."""
    sandbox.ahead_s += advance_s
    return _json({"ahead_s": sandbox.ahead_s})


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


@router.post("/people")
async def plant(sandbox: Here, body: Planting) -> Response:
    """Plant a person, an account, a listing, a history or a life under any identifier."""
    planted, day, bvn, given = sandbox.planted, sandbox.day, body.bvn, body.model_fields_set
    shown: dict[str, object] = {"bvn": bvn}
    if bvn and body.person is not None:
        fields = {name: value for name, value in body.person.items() if value is not None}
        whole = {**asdict(planted.person(bvn)), **fields, "bvn": bvn}
        whole["phone"] = people.contact_key(str(whole["phone"]))
        person = planted.people[bvn] = _PERSON.validate_python(whole)
        if {"bank_code", "account_number"} & set(fields):
            planted.holders[person.account] = bvn
        shown["person"] = _PERSON.dump_python(person, mode="json")
    if bvn and body.account:
        place = body.account.bank_code, body.account.account_number
        planted.holders[place] = bvn if body.account.exists else None
        shown["account"] = planted.account(*place, day, masked=False)
    if bvn and "history" in given:
        planted.histories[bvn] = body.history
        shown["history"] = planted.history(bvn, day)
    if body.listing:
        identity = body.listing.identity
        made = people.karma_record(identity, people.identity_kind(identity) or "bvn")
        record = {**made, **body.listing.record} if body.listing.listed else None
        shown["listing"] = planted.listings[identity] = record
    if body.customer:
        owner = planted.owner(body.customer)
        owner = Owner(planted.person(bvn) if bvn else owner.person, body.life or owner.life)
        planted.customers[body.customer] = owner
        shown |= {"customer": body.customer, "life": asdict(owner.life)}
    return _json(shown)


async def refused(_request: Request, error: Exception) -> Response:
    """Say which fields are wrong and why, without the values."""
    if not isinstance(error, ValidationError | RequestValidationError):
        return _json({"error": str(error)}, _REFUSED)
    mistakes = [
        f"{'.'.join(map(str, mistake['loc'])).removeprefix('body.')}: {mistake['msg']}"
        for mistake in error.errors()
    ]
    return _json({"error": "; ".join(mistakes)}, _REFUSED)


async def refuse_foreign(scope: Scope, receive: Receive, send: Send) -> bool:
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
    """Return why a request does not come from this machine; empty if it does.

    A host name with a dot may belong to somebody who lets it point here (DNS rebinding). An
    address, localhost or a bare name, as containers have, may not. A browser names the page in
    `Origin`.
    """
    host, name = request.headers.get("host", ""), ""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        ip_address(name)
    except ValueError:
        if not name or "." in name:
            return "this Host is refused: use the address the sandbox printed, or localhost"
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != host:
        return "this Origin is refused: only the sandbox's own pages may steer it"
    return ""
