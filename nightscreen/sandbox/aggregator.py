"""Area A, data of customers who consented: tokens, transactions, bank accounts and profile.

The reading of requests and the choice of answers live here. Grants and tokens are kept in
`sandbox.grants`, records come from `sandbox.transactions`. Only the first two paths are in the
specification; the others were observed (experimental).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nightscreen.sandbox.grants import Refused
from nightscreen.sandbox.request_pipeline import Answer, Operation, Subject
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

AUTH: Final = "aggregator_auth"
GRANT_TYPES: Final = ("authorization_code", "refresh_token")
TOKEN: Final = "token"  # noqa: S105 - the name of a field
"""The field of a subject that holds the access token, put there by the door."""
_SAMPLE: Final = "sample@customers.example"


def _read_auth(_path: dict[str, str], body: dict[str, object]) -> Subject:
    """Take the three fields from the body; the authenticator adds whose code it is."""
    fields, refusal = _texts(body, "code", "grant_type", "redirect_uri")
    if not refusal and fields["grant_type"] not in GRANT_TYPES:
        refusal = f"grant_type must be one of {', '.join(GRANT_TYPES)}"
    return Subject("", fields, refusal=refusal)


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
        return Answer(refused.word, refused.text, http_status=400)
    data = {**_token_answer(grant, access), "refresh_token": grant.refresh_token}
    return Answer("exchanged", None, data, bare=True)


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


def _token_answer(grant: Grant, access: Access) -> dict[str, object]:
    return {
        "access_token": access.token,
        "token_type": "Bearer",
        "username": grant.customer,
        "scope": " ".join(grant.scopes),
    }


UNAUTHORISED: Final = "You are not authorized to access this service."


def _texts(body: dict[str, object], *names: str) -> tuple[dict[str, str], str]:
    """Take texts from a body; returns them, and why the first bad one is refused."""
    fields: dict[str, str] = {}
    refusal = ""
    for name in names:
        value = body.get(name)
        if isinstance(value, str) and value:
            fields[name] = value
            continue
        fields[name] = ""
        missing = value is None or value == ""
        refusal = refusal or f"{name} {'is required' if missing else 'must be a string'}"
    return fields, refusal


def _not_found(what: str) -> Answer:
    return Answer("not_found", f"{what} not found", http_status=404)


def _transactions(sandbox: Sandbox, customer: str) -> list[Record]:
    notes = sandbox.linked.notes.get(customer, {})
    records = transactions_of(customer, sandbox.day, sandbox.planted.owner(customer))
    return [{**record, **notes.get(str(record.get("id")), {})} for record in records]


def _list_transactions(sandbox: Sandbox, grant: Grant, _given: dict[str, str]) -> Answer:
    records = _transactions(sandbox, grant.customer)
    return Answer("pulled", None, malformed(grant.customer, sandbox.day, records))


def _transaction(sandbox: Sandbox, customer: str, wanted: str) -> Record | None:
    records = _transactions(sandbox, customer)
    return next((record for record in records if record.get("id") == wanted), None)


def _view_transaction(sandbox: Sandbox, grant: Grant, given: dict[str, str]) -> Answer:
    record = _transaction(sandbox, grant.customer, given["id"])
    return Answer("found", "Successful", record) if record else _not_found("Transaction")


def _update_transaction(sandbox: Sandbox, grant: Grant, given: dict[str, str]) -> Answer:
    record = _transaction(sandbox, grant.customer, given["id"])
    if record is None:
        return _not_found("Transaction")
    changes: Record = {"note": given["note"], "modified_on": noon(sandbox.day)}
    changes["modified_by"] = grant.customer
    sandbox.linked.notes.setdefault(grant.customer, {})[given["id"]] = changes
    return Answer("updated", "Successful", {**record, **changes})


def _list_accounts(sandbox: Sandbox, grant: Grant, _given: dict[str, str]) -> Answer:
    accounts = _accounts(sandbox, grant).values()
    return Answer("listed", None, [_shown(sandbox, grant, account) for account in accounts])


def _accounts(sandbox: Sandbox, grant: Grant) -> dict[str, Record]:
    return sandbox.linked.accounts(grant.customer, sandbox.planted.owner(grant.customer))


def _shown(sandbox: Sandbox, grant: Grant, account: Record) -> Record:
    owner = sandbox.planted.owner(grant.customer)
    return {**account, **balance_on(grant.customer, account, sandbox.day, owner)}


def _add_account(sandbox: Sandbox, grant: Grant, given: dict[str, str]) -> Answer:
    code, number, owner = given["bank_code"], given["account_number"], sandbox.planted.owner
    try:
        record = sandbox.linked.add(
            grant.customer, owner(grant.customer), code, number, sandbox.day
        )
    except ValueError as fault:
        return Answer("malformed", str(fault), http_status=400)
    return Answer("added", "Successful", record)


def _view_account(sandbox: Sandbox, grant: Grant, given: dict[str, str]) -> Answer:
    record = _accounts(sandbox, grant).get(given["id"])
    if record is None:
        return _not_found("Bank account")
    return Answer("found", "Successful", _shown(sandbox, grant, record))


def _update_account(sandbox: Sandbox, grant: Grant, given: dict[str, str]) -> Answer:
    record = _accounts(sandbox, grant).get(given["id"])
    if record is None:
        return _not_found("Bank account")
    record |= {"account_name": given["account_name"], "modified_on": noon(sandbox.day)}
    record["modified_by"] = grant.customer
    return Answer("updated", "Successful", _shown(sandbox, grant, record))


def _delete_account(sandbox: Sandbox, grant: Grant, given: dict[str, str]) -> Answer:
    gone = _accounts(sandbox, grant).pop(given["id"], None)
    return Answer("deleted", "Successful", {}) if gone else _not_found("Bank account")


def _sync_account(sandbox: Sandbox, grant: Grant, given: dict[str, str]) -> Answer:
    record = _accounts(sandbox, grant).get(given["account_id"])
    if record is None:
        return _not_found("Bank account")
    record["last_synced"] = noon(sandbox.day)
    return Answer("synced", "Successful", _shown(sandbox, grant, record))


def _view_profile(sandbox: Sandbox, grant: Grant, _given: dict[str, str]) -> Answer:
    owner = sandbox.planted.owner(grant.customer)
    return Answer("found", "Successful", profile_of(grant.customer, owner))


def _on_behalf(scope: str, work: Work, *needed: str) -> Operation:
    """Make an operation on a customer's data.

    Args:
        scope: what must have been granted (service.md, "Authentication" 4).
        work: what it does.
        needed: texts that the body must hold.
    """

    def read(path: dict[str, str], body: dict[str, object]) -> Subject:
        fields, refusal = _texts(body, *needed)
        return Subject("", {**fields, **path}, refusal=refusal)

    def answer(sandbox: Sandbox, subject: Subject) -> Answer:
        found = sandbox.grants.find(subject.fields[TOKEN])
        if found is None:  # a reset came between
            return Answer("unknown_token", UNAUTHORISED, http_status=403)
        grant, _ = found
        if scope not in grant.scopes:
            sandbox.grants.count(grant.customer, "refused_scopes")
            text = f"Access denied: scope {scope} was not granted"
            return Answer("scope_missing", text, http_status=403)
        sandbox.grants.count(grant.customer, "data_calls")
        return work(sandbox, grant, subject.fields)

    listing = scope == "transaction:list"
    name = "aggregator_transactions" if listing else f"aggregator_{scope.replace(':', '_')}"
    return Operation(
        name, read, answer, lambda: Answer("sample", None, transactions_of(_SAMPLE)[:1])
    )


BASE: Final = "/v2/aggregator"
AUTH_ROUTES: Final[dict[str, dict[str, Operation]]] = {
    f"{BASE}/auth": {"POST": Operation(AUTH, _read_auth, _auth, _sample_tokens)}
}
"""The token operation, behind the API key."""

DATA_ROUTES: Final[dict[str, dict[str, Operation]]] = {
    f"{BASE}/transactions": {"GET": _on_behalf("transaction:list", _list_transactions)},
    f"{BASE}/transactions/{{id}}": {
        "GET": _on_behalf("transaction:view", _view_transaction),
        "PATCH": _on_behalf("transaction:update", _update_transaction, "note"),
    },
    f"{BASE}/bank-accounts": {
        "GET": _on_behalf("bank_account:list", _list_accounts),
        "POST": _on_behalf("bank_account:add", _add_account, "account_number", "bank_code"),
    },
    f"{BASE}/bank-accounts/sync": {
        "POST": _on_behalf("bank_account:sync", _sync_account, "account_id"),
    },
    f"{BASE}/bank-accounts/{{id}}": {
        "GET": _on_behalf("bank_account:view", _view_account),
        "PATCH": _on_behalf("bank_account:update", _update_account, "account_name"),
        "DELETE": _on_behalf("bank_account:delete", _delete_account),
    },
    f"{BASE}/profile": {"GET": _on_behalf("profile:view", _view_profile)},
}
"""The operations on a customer's data, behind the access token."""
