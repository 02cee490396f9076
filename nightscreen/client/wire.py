"""Builds requests: method, path and body of each operation, as pure functions.

A check builds the requests of its own lookups. The other operations of area B, of area C (loans)
and of area A (data of customers who consented) are built here. Requests are sent by
`client/api.py`, and answers are parsed in `client/response_parser.py`. `operations/` decides when
tokens are refreshed and who gets an offer.

All areas use the same API key (specification, authentication 8, does not say this of area C). Some
operations are named by scopes, but the specification does not show their paths. These are
experimental: other clients were seen to use the paths, and a setting can correct their base path.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlencode

from nightscreen.checks.registry import CHECKS
from nightscreen.schemas.checks import Operation
from nightscreen.schemas.errors import UsageError
from nightscreen.schemas.requests import VERIFICATION, Request, json_body, require, segment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nightscreen.schemas.checks import Lookup

AGGREGATOR, _LOANS = "/v2/aggregator", "/v2/loans"


def lookup_request(lookup: Lookup) -> Request:
    """Build the request that answers a lookup.

    Raises:
        UsageError: the identity is an image, or does not fit the check.
    """
    return CHECKS[lookup.check].request(lookup)


def bvn_start(bvn: str, contact: str) -> Request:
    """Build the first BVN call, which sends the customer an OTP (specification, area B rule 1)."""
    require(contact, "a BVN request needs the customer's phone number or email")
    path = f"{VERIFICATION}/bvn/{segment(bvn)}/accounts"
    return Request(Operation.BVN_START, "POST", path, json_body(contact=contact), asked=bvn)


def bvn_finish(bvn: str, otp: str) -> Request:
    """Build the second BVN call, with the customer's OTP (specification, area B rule 1)."""
    require(otp, "a BVN confirmation needs the one-time password")
    path = f"{VERIFICATION}/bvn/{segment(bvn)}/accounts"
    return Request(Operation.BVN_FINISH, "PUT", path, json_body(otp=otp), asked=bvn)


def loan_products() -> Request:
    """Build the request for the organisation's active loan products (`/v2/loans/products`)."""
    return Request(Operation.LOAN_PRODUCTS, "GET", f"{_LOANS}/products", None)


def loan_start(product_id: str, *, email: str = "", phone_number: str = "") -> Request:
    """Build the request that makes a short link (`/v2/loans/initialize`).

    Each call makes a new link, so it is never repeated automatically once it may have arrived.
    """
    require(product_id, "an offer needs a product; see: nightscreen loans products")
    given = {"email": email, "phone_number": phone_number}
    meta = {name: value for name, value in given.items() if value}
    body = json_body(product_id=product_id, **({"meta": meta} if meta else {}))
    return Request(Operation.LOAN_START, "POST", f"{_LOANS}/initialize", body)


def loan_view(reference: str) -> Request:
    """Build the request for a loan or loan request (`/v2/loans/:reference`)."""
    path = f"{_LOANS}/{segment(reference)}"
    return Request(Operation.LOAN_VIEW, "GET", path, None, asked=reference)


class Scope(StrEnum):
    """What a customer can consent to (specification, scopes)."""

    TRANSACTION_LIST = "transaction:list"
    TRANSACTION_VIEW = "transaction:view"
    TRANSACTION_UPDATE = "transaction:update"
    BANK_ACCOUNT_LIST = "bank_account:list"
    BANK_ACCOUNT_VIEW = "bank_account:view"
    BANK_ACCOUNT_ADD = "bank_account:add"
    BANK_ACCOUNT_UPDATE = "bank_account:update"
    BANK_ACCOUNT_DELETE = "bank_account:delete"
    BANK_ACCOUNT_SYNC = "bank_account:sync"
    PROFILE_VIEW = "profile:view"


class Scoped(NamedTuple):
    """An operation on the data of a customer who consented."""

    # the scope it needs, which must have been granted (specification, authentication 4)
    scope: Scope
    method: str  # HTTP method
    # below the base path, with `{item}` for an id; the full path if the specification shows it
    path: str


_ACCOUNT, _TRANSACTION = "/bank-accounts/{item}", "/transactions/{item}"
_LIST = f"{AGGREGATOR}/transactions"
SCOPED: Mapping[str, Scoped] = {
    operation: Scoped(scope, method, path)
    for operation, scope, method, path in (
        (Operation.AGGREGATOR_TRANSACTIONS, Scope.TRANSACTION_LIST, "GET", _LIST),
        (Operation.AGGREGATOR_TRANSACTION, Scope.TRANSACTION_VIEW, "GET", _TRANSACTION),
        (Operation.AGGREGATOR_TRANSACTION_UPDATE, Scope.TRANSACTION_UPDATE, "PATCH", _TRANSACTION),
        (Operation.AGGREGATOR_ACCOUNTS, Scope.BANK_ACCOUNT_LIST, "GET", "/bank-accounts"),
        (Operation.AGGREGATOR_ACCOUNT, Scope.BANK_ACCOUNT_VIEW, "GET", _ACCOUNT),
        (Operation.AGGREGATOR_ACCOUNT_ADD, Scope.BANK_ACCOUNT_ADD, "POST", "/bank-accounts"),
        (Operation.AGGREGATOR_ACCOUNT_UPDATE, Scope.BANK_ACCOUNT_UPDATE, "PATCH", _ACCOUNT),
        (Operation.AGGREGATOR_ACCOUNT_DELETE, Scope.BANK_ACCOUNT_DELETE, "DELETE", _ACCOUNT),
        (Operation.AGGREGATOR_ACCOUNT_SYNC, Scope.BANK_ACCOUNT_SYNC, "POST", "/bank-accounts/sync"),
        (Operation.AGGREGATOR_PROFILE, Scope.PROFILE_VIEW, "GET", "/profile"),
    )
}
"""Only the list of transactions is specified; the other paths are experimental."""


def read_scopes(words: str | Iterable[str]) -> tuple[Scope, ...]:
    """Return scopes from text or words, separated by spaces or commas, in the order given.

    Raises:
        UsageError: a word is no scope, or there is none.
    """
    text = words if isinstance(words, str) else " ".join(words)
    named = dict.fromkeys(text.replace(",", " ").split())
    unknown = next((word for word in named if word not in tuple(Scope)), None)
    if unknown is not None:
        raise UsageError(f"{unknown} is no scope; there are {', '.join(Scope)}")
    if not named:
        raise UsageError(f"name at least one scope, such as {Scope.TRANSACTION_LIST}")
    return tuple(Scope(word) for word in named)


def consent_address(
    consent_url: str, *, client_id: str, redirect_uri: str, scopes: Iterable[Scope], state: str
) -> str:
    """Return the URL at which the customer consents (specification, authentication 1).

    `consent_url` may be the service's base or the whole address of its consent screen.

    Raises:
        UsageError: client id, redirect address or state is missing.
    """
    require(client_id, "NIGHTSCREEN_CLIENT_ID is not set: copy it from the service's console")
    require(redirect_uri, "NIGHTSCREEN_REDIRECT_URI is not set: write the registered address")
    require(state, "a consent link needs a state")
    query = urlencode(
        {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(scopes),
            "state": state,
        },
        quote_via=quote,
    )
    return f"{consent_url.rstrip('/').removesuffix('/data-share')}/data-share?{query}"


def exchange(code: str, redirect_uri: str) -> Request:
    """Build the exchange of an authorization code for tokens (`/v2/aggregator/auth`).

    A code works once, so the exchange is never repeated automatically once it may have arrived.
    """
    require(code, "an exchange needs the authorization code of the redirect")
    body = json_body(code=code, grant_type="authorization_code", redirect_uri=redirect_uri)
    return Request(Operation.AGGREGATOR_EXCHANGE, "POST", f"{AGGREGATOR}/auth", body)


def refresh(refresh_token: str, redirect_uri: str) -> Request:
    """Build the exchange of a refresh token for a new access token (`/v2/aggregator/auth`)."""
    require(refresh_token, "a refresh needs a refresh token")
    body = json_body(code=refresh_token, grant_type="refresh_token", redirect_uri=redirect_uri)
    return Request(Operation.AGGREGATOR_REFRESH, "POST", f"{AGGREGATOR}/auth", body)


def scoped(
    operation: str,
    access_token: str,
    *,
    item: str | None = None,
    fields: Mapping[str, str] | None = None,
    under: str = AGGREGATOR,
) -> Request:
    """Build a request for the data of a customer who consented.

    Raises:
        UsageError: the token is missing, or an id is needed and empty.
    """
    require(access_token, "the customer's access token is missing; refresh the grant first")
    _, method, path = SCOPED[operation]
    if not path.startswith(AGGREGATOR):
        path = under + path
    if item is not None:
        path = path.format(item=segment(item))
    body = json_body(**fields) if fields else None
    return Request(operation, method, path, body, access_token=access_token)
