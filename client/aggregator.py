"""Pure builders of area A: the consent screen's address, tokens, data of those who consented.

The operations that the scopes name but whose paths the specification does not show are marked
experimental: their paths were seen in the wild, under a base path that settings can correct. What
does not belong here: keeping tokens (`storage/vault`) and when to refresh them (`steps/`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from nightscreen.client.wire import Request, json_body, require, segment
from nightscreen.schemas.checks import Operation
from nightscreen.schemas.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

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


SCOPE_OF = {
    Operation.AGGREGATOR_TRANSACTIONS: Scope.TRANSACTION_LIST,
    Operation.AGGREGATOR_TRANSACTION: Scope.TRANSACTION_VIEW,
    Operation.AGGREGATOR_TRANSACTION_UPDATE: Scope.TRANSACTION_UPDATE,
    Operation.AGGREGATOR_ACCOUNTS: Scope.BANK_ACCOUNT_LIST,
    Operation.AGGREGATOR_ACCOUNT: Scope.BANK_ACCOUNT_VIEW,
    Operation.AGGREGATOR_ACCOUNT_ADD: Scope.BANK_ACCOUNT_ADD,
    Operation.AGGREGATOR_ACCOUNT_UPDATE: Scope.BANK_ACCOUNT_UPDATE,
    Operation.AGGREGATOR_ACCOUNT_DELETE: Scope.BANK_ACCOUNT_DELETE,
    Operation.AGGREGATOR_ACCOUNT_SYNC: Scope.BANK_ACCOUNT_SYNC,
    Operation.AGGREGATOR_PROFILE: Scope.PROFILE_VIEW,
}
"""The scope each operation needs; one that was not granted is never usable (authentication 4)."""


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


def transactions(access_token: str) -> Request:
    """Build the list of a customer's transactions (`/v2/aggregator/transactions`)."""
    return _with_token(
        access_token, Operation.AGGREGATOR_TRANSACTIONS, "GET", f"{AGGREGATOR}/transactions"
    )


def transaction(access_token: str, transaction_id: str, *, under: str = AGGREGATOR) -> Request:
    """Build the view of one transaction (experimental)."""
    path = f"{under}/transactions/{segment(transaction_id)}"
    return _with_token(access_token, Operation.AGGREGATOR_TRANSACTION, "GET", path)


def update_transaction(
    access_token: str, transaction_id: str, note: str, *, under: str = AGGREGATOR
) -> Request:
    """Build the change of a transaction's note (experimental)."""
    path = f"{under}/transactions/{segment(transaction_id)}"
    return _with_token(
        access_token, Operation.AGGREGATOR_TRANSACTION_UPDATE, "PATCH", path, note=note
    )


def bank_accounts(access_token: str, *, under: str = AGGREGATOR) -> Request:
    """Build the list of a customer's bank accounts (experimental)."""
    return _with_token(access_token, Operation.AGGREGATOR_ACCOUNTS, "GET", f"{under}/bank-accounts")


def bank_account(access_token: str, account_id: str, *, under: str = AGGREGATOR) -> Request:
    """Build the view of one bank account (experimental)."""
    path = f"{under}/bank-accounts/{segment(account_id)}"
    return _with_token(access_token, Operation.AGGREGATOR_ACCOUNT, "GET", path)


def add_bank_account(
    access_token: str, fields: dict[str, str], *, under: str = AGGREGATOR
) -> Request:
    """Build the adding of a bank account (experimental); fields as the service names them."""
    path = f"{under}/bank-accounts"
    return _with_token(access_token, Operation.AGGREGATOR_ACCOUNT_ADD, "POST", path, **fields)


def update_bank_account(
    access_token: str, account_id: str, fields: dict[str, str], *, under: str = AGGREGATOR
) -> Request:
    """Build the change of a bank account (experimental); fields as the service names them."""
    path = f"{under}/bank-accounts/{segment(account_id)}"
    return _with_token(access_token, Operation.AGGREGATOR_ACCOUNT_UPDATE, "PATCH", path, **fields)


def delete_bank_account(access_token: str, account_id: str, *, under: str = AGGREGATOR) -> Request:
    """Build the removal of a bank account (experimental)."""
    path = f"{under}/bank-accounts/{segment(account_id)}"
    return _with_token(access_token, Operation.AGGREGATOR_ACCOUNT_DELETE, "DELETE", path)


def sync_bank_account(access_token: str, account_id: str, *, under: str = AGGREGATOR) -> Request:
    """Build the request to synchronise a bank account (experimental)."""
    path = f"{under}/bank-accounts/sync"
    return _with_token(
        access_token, Operation.AGGREGATOR_ACCOUNT_SYNC, "POST", path, account_id=account_id
    )


def profile(access_token: str, *, under: str = AGGREGATOR) -> Request:
    """Build the view of the customer's profile (experimental)."""
    return _with_token(access_token, Operation.AGGREGATOR_PROFILE, "GET", f"{under}/profile")


def _with_token(
    access_token: str, operation: Operation, method: str, path: str, **fields: str
) -> Request:
    require(access_token, "the customer's access token is missing; refresh the grant first")
    body = json_body(**fields) if fields else None
    return Request(operation, method, path, body, access_token=access_token)
