"""Area A in the OpenAPI document: consent screen, tokens, and data of customers who consented.

Paths beyond the specification's are marked experimental, and so are all fields of records: the
specification shows none.
"""

from __future__ import annotations

from typing import Final

from nightscreen.sandbox.grants import SCOPES, TOKEN_LENGTH
from nightscreen.sandbox.openapi_parts import (
    MOMENT,
    Schema,
    operation,
    parameter,
    ref,
    shape,
    text,
    texts,
)

_TOKEN: Final[Schema] = {"type": "string", "minLength": TOKEN_LENGTH, "maxLength": TOKEN_LENGTH}
_MONEY: Final = text(r"-?[0-9]+\.[0-9]{2}")
_BEARER: Final[list[dict[str, list[str]]]] = [{"token": []}]
_FILLED: Final[Schema] = {"type": "string", "minLength": 1}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _listed(item: str) -> Schema:
    """Describe a list's answer: the envelope without a message."""
    success: Schema = {"type": "string", "enum": ["success"]}
    data: Schema = {"type": "array", "items": ref(item)}
    return shape({"status": success, "data": data, "meta": ref("Meta")})


def _single(item: Schema) -> Schema:
    success: Schema = {"type": "string", "enum": ["success"]}
    return shape({"status": success, "message": text(), "data": item, "meta": ref("Meta")})


def schemas() -> dict[str, Schema]:
    """Return the schemas of area A by name."""
    bank = shape(
        {"id": text("[0-9a-f]{32}"), **texts("name", "short_code", "long_code", "icon")},
    )
    transaction = shape(
        {
            **texts("account_number", "currency", "reference", "hash", "status"),
            "amount": _MONEY,
            "balance": _MONEY,
            "entry_type": {"type": "string", "enum": ["credit", "debit"]},
            **texts("narration", "transaction_type", "source", "provider"),
            "transaction_date": MOMENT,
            "note": _or_null(text()),
            "bank": bank,
            "created_on": MOMENT,
            "modified_on": MOMENT,
            "deleted_on": _or_null(MOMENT),
        },
        {"id": {"type": "string", "format": "uuid"}, "deleted_by": _or_null(text())},
    )
    account = shape(
        {
            "id": {"type": "string", "format": "uuid"},
            **texts("account_name", "account_number", "currency", "created_by", "modified_by"),
            "balance": _MONEY,
            "data_source": {"type": "array", "items": text()},
            "description": _or_null(text()),
            "bank": bank,
            **dict.fromkeys(("last_balance_time", "last_synced"), MOMENT),
            **dict.fromkeys(("created_on", "modified_on"), MOMENT),
            "deleted_on": _or_null(MOMENT),
            "deleted_by": _or_null(text()),
        }
    )
    tokens = shape(
        {"access_token": _TOKEN, **texts("token_type", "username", "scope")},
        {"refresh_token": _TOKEN},
    )
    profile = shape(texts("id", "username", "first_name", "last_name", "email", "phone_number"))
    return {
        "AccessToken": tokens,
        "Transaction": transaction,
        "LinkedAccount": account,
        "Transactions": _listed("Transaction"),
        "LinkedAccounts": _listed("LinkedAccount"),
        "OneTransaction": _single(ref("Transaction")),
        "OneLinkedAccount": _single(ref("LinkedAccount")),
        "Gone": _single({"type": "object", "maxProperties": 0}),
        "Profile": _single(profile),
    }


def _screen() -> Schema:
    described = {
        "response_type": {"type": "string", "enum": ["code"]},
        "client_id": _FILLED,
        "redirect_uri": {"type": "string", "format": "uri"},
        "scope": {**_FILLED, "description": f"one or more of: {', '.join(SCOPES)}"},
        "state": text(),
        "login_hint": {**text(), "description": "the sandbox's own: who is signed in"},
    }
    optional = ("state", "login_hint")
    parameters = [
        {"name": name, "in": "query", "required": name not in optional, "schema": schema}
        for name, schema in described.items()
    ]
    page = {"text/html": {"schema": text()}}
    return {
        "operationId": "consent_screen",
        "summary": "asks the customer; the browser is sent back with code and state",
        "security": [],
        "parameters": parameters,
        "responses": {
            "200": {"description": "the page that asks", "content": page},
            "302": {"description": "back to redirect_uri, refused", "content": page},
            "400": {"description": "the request is wrong: a page, no redirect", "content": page},
        },
    }


def _auth() -> Schema:
    return operation(
        *("aggregator_auth", "an access token", "AccessToken", "400 401 402 403 500"),
        {
            "code": {**_FILLED, "description": "the authorization code, or the refresh token"},
            "grant_type": {"type": "string", "enum": ["authorization_code", "refresh_token"]},
            "redirect_uri": {"type": "string", "format": "uri"},
        },
    )


def _data(name: str, summary: str, schema: str, *fields: str) -> Schema:
    described = operation(
        *(f"aggregator_{name}", summary, schema, "400 402 403 404 500"),
        dict.fromkeys(fields, _FILLED),
    )
    return {**described, "security": _BEARER}


def _experimental(name: str, summary: str, schema: str, *fields: str) -> Schema:
    return {**_data(name, f"{summary} (experimental)", schema, *fields), "x-experimental": True}


def paths() -> dict[str, Schema]:
    """Return the paths of area A."""
    base = "/v2/aggregator"
    by_id = parameter("id", _FILLED)
    one = "OneLinkedAccount"
    return {
        "/data-share": {"get": _screen()},
        f"{base}/auth": {"post": _auth()},
        f"{base}/transactions": {
            "get": _data("transactions", "all transactions, newest first", "Transactions")
        },
        f"{base}/transactions/{{id}}": {
            "parameters": by_id,
            "get": _experimental("transaction_view", "one transaction", "OneTransaction"),
            "patch": _experimental(
                "transaction_update", "the transaction with its new note", "OneTransaction", "note"
            ),
        },
        f"{base}/bank-accounts": {
            "get": _experimental("bank_account_list", "all bank accounts", "LinkedAccounts"),
            "post": _experimental(
                *("bank_account_add", "the account added", one, "account_number", "bank_code")
            ),
        },
        f"{base}/bank-accounts/sync": {
            "post": _experimental("bank_account_sync", "the account, as of now", one, "account_id")
        },
        f"{base}/bank-accounts/{{id}}": {
            "parameters": by_id,
            "get": _experimental("bank_account_view", "one bank account", one),
            "patch": _experimental(
                "bank_account_update", "the account with its new name", one, "account_name"
            ),
            "delete": _experimental("bank_account_delete", "the account is gone", "Gone"),
        },
        f"{base}/profile": {
            "get": _experimental("profile_view", "the customer's profile", "Profile")
        },
    }


SECURITY: Final[dict[str, Schema]] = {
    "token": {"type": "apiKey", "in": "header", "name": "x-access-token"}
}
"""The credential of data calls."""
