"""Area A, data of customers who consented: tokens, transactions, bank accounts and profile.

`sandbox.grants` keeps grants and tokens; `sandbox.transactions` makes the records. Only the first
two operations are in the specification; the others were observed (experimental).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from nightscreen.sandbox.grants import NOBODY, Refused
from nightscreen.sandbox.people import (
    ACCOUNT_DIGITS,
    BANK_CODE_DIGITS,
    FIRST_DAY,
    account_name,
    holder_of,
    is_digits,
)
from nightscreen.sandbox.request_pipeline import (
    UNAUTHORISED,
    Operation,
    by_key,
    by_token,
    texts,
)
from nightscreen.sandbox.test_identifiers import by_customer
from nightscreen.sandbox.transactions import (
    bank_accounts_of,
    linked_account,
    malformed,
    profile_of,
    transactions_of,
)
from nightscreen.sandbox.wire import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import BaseModel

    from nightscreen.sandbox.people import Record
    from nightscreen.sandbox.request_pipeline import Call
    from nightscreen.sandbox.transactions import Owner

    Work = Callable[[Call], Answer]

GRANT_TYPES: Final = ("authorization_code", "refresh_token")
BASE: Final = "/v2/aggregator"
_SAMPLE: Final = "sample@customers.example"


_TOKEN: Final = texts(
    "TokenBody",
    code="the authorization code, or the refresh token",
    grant_type=" or ".join(GRANT_TYPES),
    redirect_uri="that of the authorization request",
)
_NOTE: Final = texts("NoteBody", note="another note on a transaction")
_NAME: Final = texts("AccountNameBody", account_name="another name of a linked bank account")
_SYNC: Final = texts("SyncBody", account_id="the bank account to synchronise")
_NEW: Final = texts("NewAccountBody", account_number="10 digits", bank_code="3 digits")


def _owned(call: Call, customer: str) -> None:
    """Note whose call it is; a missing field of area A is refused, where others hang."""
    call.identity = customer
    call.row = by_customer(customer)
    if call.missing:
        call.refuse(f"{call.missing} is required")


def _read_auth(call: Call) -> None:
    _owned(call, call.sandbox.grants.customer_of(call.fields["code"]))
    if call.fields["grant_type"] not in GRANT_TYPES:
        call.refuse(f"grant_type must be one of {', '.join(GRANT_TYPES)}")


def _read_data(call: Call) -> None:
    grant = call.sandbox.grants.find(call.fields["token"])
    _owned(call, grant.customer if grant else NOBODY)


def _auth(call: Call) -> Answer:
    """Exchange a code, or refresh: only the exchange answers a refresh token."""
    given, grants, now = call.fields, call.sandbox.grants, call.sandbox.now()
    refreshes = given["grant_type"] == "refresh_token"
    ask = grants.refresh if refreshes else grants.exchange
    try:
        grant, token = ask(given["code"], given["redirect_uri"], now)
    except Refused as refused:
        return Answer.error(refused.word, str(refused))
    data = _tokens(token, grant.customer, " ".join(grant.scopes))
    if refreshes:
        return Answer("refreshed", None, data, bare=True)
    return Answer("exchanged", None, {**data, "refresh_token": grant.refresh_token}, bare=True)


def _tokens(token: str, customer: str, scope: str) -> Record:
    return {"access_token": token, "token_type": "Bearer", "username": customer, "scope": scope}


def _sample_tokens() -> Answer:
    """Return the answer of test mode: tokens that give access to nothing."""
    data = _tokens("sample-access-token", _SAMPLE, "transaction:list")
    return Answer("exchanged", None, {**data, "refresh_token": "sample-refresh-token"}, bare=True)


def _about(call: Call) -> tuple[str, int, Owner]:
    """Return the customer, the simulated day, and who the customer is."""
    return call.identity, call.sandbox.day, call.sandbox.planted.owner(call.identity)


def _now(call: Call) -> str:
    """Return the noon of the simulated day."""
    return f"{FIRST_DAY + timedelta(days=call.sandbox.day)}T12:00:00.000Z"


def _changed(call: Call, record: Record, name: str) -> Answer:
    """Answer with a record as the client wants it in one field; nothing is kept of it."""
    whose = {"modified_on": _now(call), "modified_by": call.identity}
    return Answer("updated", "Successful", {**record, name: call.fields[name], **whose})


def _with_id(records: list[Record], wanted: str) -> Record | None:
    return next((each for each in records if each.get("id") == wanted), None)


def _list(call: Call) -> Answer:
    records = transactions_of(*_about(call))
    return Answer("pulled", None, malformed(call.identity, call.sandbox.day, records))


def _transaction(call: Call) -> Answer:
    """View a transaction, or change its note."""
    record = _with_id(transactions_of(*_about(call)), call.fields["id"])
    if record is None:
        return Answer.error("not_found", "Transaction not found", 404)
    if "note" in call.fields:
        return _changed(call, record, "note")
    return Answer("found", "Successful", record)


def _add_account(call: Call) -> Answer:
    code, number, day = call.fields["bank_code"], call.fields["account_number"], call.sandbox.day
    right = is_digits(code, BANK_CODE_DIGITS) and is_digits(number, ACCOUNT_DIGITS)
    holder = holder_of(code, number, day=day) if right else None
    if holder is None:
        return Answer.error("malformed", "Enter a valid account number and bank code.")
    name = account_name(holder, code, number)
    return Answer("added", "Successful", linked_account(call.identity, code, number, name, day))


def _account(call: Call) -> Answer:
    """View a bank account, rename it, or synchronise it."""
    given = call.fields
    record = _with_id(bank_accounts_of(*_about(call)), given.get("id") or given["account_id"])
    if record is None:
        return Answer.error("not_found", "Bank account not found", 404)
    if "account_name" in given:
        return _changed(call, record, "account_name")
    if "account_id" in given:
        return Answer("synced", "Successful", {**record, "last_synced": _now(call)})
    return Answer("found", "Successful", record)


def _remove_account(call: Call) -> Answer:
    found = _account(call)
    return Answer("deleted", "Successful", {}) if found.word == "found" else found


def _for_scope(scope: str, work: Work) -> Callable[[Call], Answer]:
    """Do something for whom it was granted to (service.md, "Authentication" 4)."""

    def answer(call: Call) -> Answer:
        grants = call.sandbox.grants
        grant = grants.find(call.fields["token"])
        if grant is None:  # the sandbox was reset meanwhile
            return Answer.error("unknown_token", UNAUTHORISED, 403)
        if scope not in grant.scopes:
            grants.count(grant.customer, "refused_scopes")
            text = f"Access denied: scope {scope} was not granted"
            return Answer.error("scope_missing", text, 403)
        grants.count(grant.customer, "data_calls")
        return work(call)

    return answer


_ON_DATA: Final[tuple[tuple[str, str, str, Work, type[BaseModel] | None], ...]] = (
    ("transaction:list", "GET", "/transactions", _list, None),
    ("transaction:view", "GET", "/transactions/{id}", _transaction, None),
    ("transaction:update", "PATCH", "/transactions/{id}", _transaction, _NOTE),
    (
        *("bank_account:list", "GET", "/bank-accounts"),
        lambda call: Answer("listed", None, bank_accounts_of(*_about(call))),
        None,
    ),
    ("bank_account:add", "POST", "/bank-accounts", _add_account, _NEW),
    ("bank_account:sync", "POST", "/bank-accounts/sync", _account, _SYNC),
    ("bank_account:view", "GET", "/bank-accounts/{id}", _account, None),
    ("bank_account:update", "PATCH", "/bank-accounts/{id}", _account, _NAME),
    ("bank_account:delete", "DELETE", "/bank-accounts/{id}", _remove_account, None),
    (
        *("profile:view", "GET", "/profile"),
        lambda call: Answer("found", "Successful", profile_of(call.identity, _about(call)[2])),
        None,
    ),
)
"""Scope, method, path below the base, work and body of each operation on a customer's data."""

OPERATIONS: Final = (
    Operation(
        *("aggregator_auth", "POST", f"{BASE}/auth", by_key, _read_auth, _auth, _sample_tokens),
        _TOKEN,
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
