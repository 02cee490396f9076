"""Pure builders of area A: the consent screen's address, tokens, data of those who consented.

The operations that the scopes name but whose paths the specification does not show are marked
experimental: their paths were seen in the wild, under a base path that settings can correct. What
does not belong here: keeping tokens (`journal/consents`) and when to refresh them (`operations/`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlencode

from nightscreen.schemas.checks import Operation
from nightscreen.schemas.errors import UsageError
from nightscreen.schemas.requests import Request, json_body, require, segment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

AGGREGATOR = "/v2/aggregator"


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

    # the scope it needs; one that was not granted is never usable (specification, authentication 4)
    scope: Scope
    method: str  # HTTP method
    # below the base path, `{item}` standing for an id; whole where the specification shows it
    path: str


SCOPED: Mapping[str, Scoped] = {
    Operation.AGGREGATOR_TRANSACTIONS: Scoped(
        Scope.TRANSACTION_LIST, "GET", f"{AGGREGATOR}/transactions"
    ),
    Operation.AGGREGATOR_TRANSACTION: Scoped(Scope.TRANSACTION_VIEW, "GET", "/transactions/{item}"),
    Operation.AGGREGATOR_TRANSACTION_UPDATE: Scoped(
        Scope.TRANSACTION_UPDATE, "PATCH", "/transactions/{item}"
    ),
    Operation.AGGREGATOR_ACCOUNTS: Scoped(Scope.BANK_ACCOUNT_LIST, "GET", "/bank-accounts"),
    Operation.AGGREGATOR_ACCOUNT: Scoped(Scope.BANK_ACCOUNT_VIEW, "GET", "/bank-accounts/{item}"),
    Operation.AGGREGATOR_ACCOUNT_ADD: Scoped(Scope.BANK_ACCOUNT_ADD, "POST", "/bank-accounts"),
    Operation.AGGREGATOR_ACCOUNT_UPDATE: Scoped(
        Scope.BANK_ACCOUNT_UPDATE, "PATCH", "/bank-accounts/{item}"
    ),
    Operation.AGGREGATOR_ACCOUNT_DELETE: Scoped(
        Scope.BANK_ACCOUNT_DELETE, "DELETE", "/bank-accounts/{item}"
    ),
    Operation.AGGREGATOR_ACCOUNT_SYNC: Scoped(
        Scope.BANK_ACCOUNT_SYNC, "POST", "/bank-accounts/sync"
    ),
    Operation.AGGREGATOR_PROFILE: Scoped(Scope.PROFILE_VIEW, "GET", "/profile"),
}
"""Specified is the list of transactions alone; the other paths were seen and are experimental."""


def read_scopes(words: str | Iterable[str]) -> tuple[Scope, ...]:
    """Return scopes from text or words, separated by blanks or commas, in the order given.

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
    """Return where the customer's browser is sent to consent (specification, authentication 1).

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
    return f"{consent_url.rstrip('/')}/data-share?{query}"


def exchange(code: str, redirect_uri: str) -> Request:
    """Build the exchange of an authorization code for tokens (`/v2/aggregator/auth`).

    A code works once: the exchange is never repeated by machine after it may have arrived.
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
