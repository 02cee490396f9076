"""Area A, data of customers who consented: tokens, transactions, bank accounts and profile.

Grants and tokens are kept in `sandbox.grants`, records come from `sandbox.transactions`. Only the
first two operations are in the specification; the others were observed (experimental).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, Field

from nightscreen.sandbox.auth import UNAUTHORISED, by_key, by_token
from nightscreen.sandbox.grants import NOBODY, Refused
from nightscreen.sandbox.request_pipeline import Answer, Operation, Subject
from nightscreen.sandbox.test_identifiers import by_customer
from nightscreen.sandbox.transactions import (
    balance_on,
    malformed,
    noon,
    profile_of,
    transactions_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from nightscreen.sandbox.grants import Access, Grant
    from nightscreen.sandbox.state import Sandbox
    from nightscreen.sandbox.transactions import Record

    Work = Callable[[Sandbox, Grant, dict[str, str]], Answer]

GRANT_TYPES: Final = ("authorization_code", "refresh_token")
BASE: Final = "/v2/aggregator"
_SAMPLE: Final = "sample@customers.example"


class TokenBody(BaseModel):
    """A code to exchange, or a refresh token."""

    code: str = Field(description="the authorization code, or the refresh token")
    grant_type: str = Field(description=" or ".join(GRANT_TYPES))
    redirect_uri: str = Field(description="that of the authorization request")


class NoteBody(BaseModel):
    """Another note on a transaction."""

    note: str


class NewAccountBody(BaseModel):
    """A bank account to link."""

    account_number: str
    bank_code: str


class AccountNameBody(BaseModel):
    """Another name of a linked bank account."""

    account_name: str


class SyncBody(BaseModel):
    """The bank account to synchronise."""

    account_id: str


def _owned(subject: Subject, customer: str, *, at_auth: bool) -> None:
    """Note whose call it is; a missing field of area A is refused, where others hang."""
    subject.identity = customer
    row = by_customer(customer)
    subject.trouble = row.trouble(at_auth=at_auth) if row else None
    if subject.missing:
        subject.refusal = subject.refusal or f"{subject.missing} is required"


def _read_auth(sandbox: Sandbox, subject: Subject, _body: dict[str, object]) -> None:
    _owned(subject, sandbox.grants.customer_of(subject.fields["code"]), at_auth=True)
    if not subject.refusal and subject.fields["grant_type"] not in GRANT_TYPES:
        subject.refusal = f"grant_type must be one of {', '.join(GRANT_TYPES)}"


def _auth(sandbox: Sandbox, subject: Subject) -> Answer:
    """Exchange a code, or refresh."""
    given, grants, now = subject.fields, sandbox.grants, sandbox.now()
    secret, redirect_uri = given["code"], given["redirect_uri"]
    try:
        if given["grant_type"] == "refresh_token":
            found = grants.refresh(secret, redirect_uri, now=now)
            return Answer("refreshed", None, _token_answer(*found), bare=True)
        client_id = sandbox.client.client_id
        grant, access = grants.exchange(secret, redirect_uri, client_id=client_id, now=now)
    except Refused as refused:
        return Answer.error(refused.word, refused.text)
    data = {**_token_answer(grant, access), "refresh_token": grant.refresh_token}
    return Answer("exchanged", None, data, bare=True)


def _token_answer(grant: Grant, access: Access) -> dict[str, object]:
    return {
        "access_token": access.token,
        "token_type": "Bearer",
        "username": grant.customer,
        "scope": " ".join(grant.scopes),
    }


def _sample_tokens() -> Answer:
    """Make the answer of test mode: tokens that open nothing."""
    data = {
        "access_token": "sample-access-token",
        "token_type": "Bearer",
        "username": _SAMPLE,
        "refresh_token": "sample-refresh-token",
        "scope": "transaction:list",
    }
    return Answer("exchanged", None, data, bare=True)


def _transactions(sandbox: Sandbox, customer: str) -> list[Record]:
    notes = sandbox.linked.notes.get(customer, {})
    records = transactions_of(customer, sandbox.day, sandbox.planted.owner(customer))
    return [{**record, **notes.get(str(record.get("id")), {})} for record in records]


def _list_transactions(sandbox: Sandbox, grant: Grant, _given: dict[str, str]) -> Answer:
    records = _transactions(sandbox, grant.customer)
    return Answer("pulled", None, malformed(grant.customer, sandbox.day, records))


def _transaction(sandbox: Sandbox, grant: Grant, given: dict[str, str]) -> Answer:
    """View a transaction, or change its note."""
    records = _transactions(sandbox, grant.customer)
    record = next((record for record in records if record.get("id") == given["id"]), None)
    if record is None:
        return Answer.error("not_found", "Transaction not found", 404)
    if "note" not in given:
        return Answer("found", "Successful", record)
    changes = {"note": given["note"], **_modified(sandbox, grant)}
    sandbox.linked.notes.setdefault(grant.customer, {})[given["id"]] = changes
    return Answer("updated", "Successful", {**record, **changes})


def _modified(sandbox: Sandbox, grant: Grant) -> Record:
    return {"modified_on": noon(sandbox.day), "modified_by": grant.customer}


def _accounts(sandbox: Sandbox, grant: Grant) -> dict[str, Record]:
    return sandbox.linked.accounts(grant.customer, sandbox.planted.owner(grant.customer))


def _shown(sandbox: Sandbox, grant: Grant, account: Record) -> Record:
    owner = sandbox.planted.owner(grant.customer)
    return {**account, **balance_on(grant.customer, account, sandbox.day, owner)}


def _list_accounts(sandbox: Sandbox, grant: Grant, _given: dict[str, str]) -> Answer:
    accounts = _accounts(sandbox, grant).values()
    return Answer("listed", None, [_shown(sandbox, grant, account) for account in accounts])


def _add_account(sandbox: Sandbox, grant: Grant, given: dict[str, str]) -> Answer:
    place, owner = (given["bank_code"], given["account_number"]), sandbox.planted.owner
    try:
        added = sandbox.linked.add(grant.customer, owner(grant.customer), *place, sandbox.day)
    except ValueError as fault:
        return Answer.error("malformed", str(fault))
    return Answer("added", "Successful", added)


def _on_account(word: str) -> Work:
    """View, rename, remove or synchronise one bank account."""

    def work(sandbox: Sandbox, grant: Grant, given: dict[str, str]) -> Answer:
        accounts, wanted = _accounts(sandbox, grant), given.get("id") or given["account_id"]
        record = accounts.get(wanted)
        if record is None:
            return Answer.error("not_found", "Bank account not found", 404)
        if word == "deleted":
            del accounts[wanted]
            return Answer(word, "Successful", {})
        if word == "updated":
            record |= {"account_name": given["account_name"], **_modified(sandbox, grant)}
        if word == "synced":
            record["last_synced"] = noon(sandbox.day)
        return Answer(word, "Successful", _shown(sandbox, grant, record))

    return work


def _view_profile(sandbox: Sandbox, grant: Grant, _given: dict[str, str]) -> Answer:
    owner = sandbox.planted.owner(grant.customer)
    return Answer("found", "Successful", profile_of(grant.customer, owner))


def _read_data(sandbox: Sandbox, subject: Subject, _body: dict[str, object]) -> None:
    found = sandbox.grants.find(subject.fields["token"])
    _owned(subject, found[0].customer if found else NOBODY, at_auth=False)


def _for_scope(scope: str, work: Work) -> Callable[[Sandbox, Subject], Answer]:
    """Do something for whom it was granted to (service.md, "Authentication" 4)."""

    def answer(sandbox: Sandbox, subject: Subject) -> Answer:
        found = sandbox.grants.find(subject.fields["token"])
        if found is None:  # a reset came between
            return Answer.error("unknown_token", UNAUTHORISED, 403)
        grant, _ = found
        if scope not in grant.scopes:
            sandbox.grants.count(grant.customer, "refused_scopes")
            text = f"Access denied: scope {scope} was not granted"
            return Answer.error("scope_missing", text, 403)
        sandbox.grants.count(grant.customer, "data_calls")
        return work(sandbox, grant, subject.fields)

    return answer


_ON_DATA: Final[tuple[tuple[str, str, str, Work, type[BaseModel] | None], ...]] = (
    ("transaction:list", "GET", "/transactions", _list_transactions, None),
    ("transaction:view", "GET", "/transactions/{id}", _transaction, None),
    ("transaction:update", "PATCH", "/transactions/{id}", _transaction, NoteBody),
    ("bank_account:list", "GET", "/bank-accounts", _list_accounts, None),
    ("bank_account:add", "POST", "/bank-accounts", _add_account, NewAccountBody),
    ("bank_account:sync", "POST", "/bank-accounts/sync", _on_account("synced"), SyncBody),
    ("bank_account:view", "GET", "/bank-accounts/{id}", _on_account("found"), None),
    (
        *("bank_account:update", "PATCH", "/bank-accounts/{id}"),
        *(_on_account("updated"), AccountNameBody),
    ),
    ("bank_account:delete", "DELETE", "/bank-accounts/{id}", _on_account("deleted"), None),
    ("profile:view", "GET", "/profile", _view_profile, None),
)
"""Scope, method, path below the base, work and body of each operation on a customer's data."""

OPERATIONS: Final = (
    Operation(
        *("aggregator_auth", "POST", f"{BASE}/auth"),
        by_key,
        _read_auth,
        _auth,
        _sample_tokens,
        TokenBody,
    ),
    *(
        Operation(
            "aggregator_transactions"
            if scope == "transaction:list"
            else f"aggregator_{scope.replace(':', '_')}",
            *(method, f"{BASE}{path}", by_token, _read_data, _for_scope(scope, work)),
            lambda: Answer("sample", None, transactions_of(_SAMPLE)[:1]),
            body,
        )
        for scope, method, path, work, body in _ON_DATA
    ),
)
"""The operations of area A."""
