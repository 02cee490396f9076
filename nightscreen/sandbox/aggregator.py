"""Area A, data of customers who consented: tokens, transactions, bank accounts and profile.

Grants and tokens are kept in `sandbox.grants`, records come from `sandbox.transactions`. Only the
first two operations are in the specification; the others were observed (experimental).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from nightscreen.sandbox.grants import NOBODY, Refused
from nightscreen.sandbox.request_pipeline import (
    UNAUTHORISED,
    Answer,
    Operation,
    by_key,
    by_token,
    texts,
)
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

    from pydantic import BaseModel

    from nightscreen.sandbox.people import Record
    from nightscreen.sandbox.request_pipeline import Call
    from nightscreen.sandbox.state import Sandbox
    from nightscreen.sandbox.transactions import Owner

    Work = Callable[["Data"], Answer]

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


def _owned(call: Call, customer: str, *, at_auth: bool) -> None:
    """Note whose call it is; a missing field of area A is refused, where others hang."""
    call.identity = customer
    call.trouble = by_customer(customer).trouble(at_auth=at_auth)
    if call.missing:
        call.refuse(f"{call.missing} is required")


def _read_auth(call: Call) -> None:
    _owned(call, call.sandbox.grants.customer_of(call.fields["code"]), at_auth=True)
    if call.fields["grant_type"] not in GRANT_TYPES:
        call.refuse(f"grant_type must be one of {', '.join(GRANT_TYPES)}")


def _read_data(call: Call) -> None:
    grant = call.sandbox.grants.find(call.fields["token"])
    _owned(call, grant.customer if grant else NOBODY, at_auth=False)


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
    """Make the answer of test mode: tokens that open nothing."""
    data = _tokens("sample-access-token", _SAMPLE, "transaction:list")
    return Answer("exchanged", None, {**data, "refresh_token": "sample-refresh-token"}, bare=True)


class Data(NamedTuple):
    """A call for the data of a customer who granted it."""

    sandbox: Sandbox
    customer: str
    given: dict[str, str]

    @property
    def owner(self) -> Owner:
        """Who the customer is."""
        return self.sandbox.planted.owner(self.customer)

    def transactions(self) -> list[Record]:
        """Return the customer's transactions, newest first, with the notes a client made."""
        notes = self.sandbox.linked.notes.get(self.customer, {})
        records = transactions_of(self.customer, self.sandbox.day, self.owner)
        return [{**record, **notes.get(str(record.get("id")), {})} for record in records]

    def accounts(self) -> dict[str, Record]:
        """Return the customer's bank accounts, as they were linked and changed."""
        return self.sandbox.linked.accounts(self.customer, self.owner)

    def shown(self, account: Record) -> Record:
        """Return a bank account with its balance of the day."""
        return {**account, **balance_on(self.customer, account, self.sandbox.day, self.owner)}

    def modified(self) -> Record:
        """Return the fields that say who changed something, and when."""
        return {"modified_on": noon(self.sandbox.day), "modified_by": self.customer}


def _list_transactions(data: Data) -> Answer:
    listed = malformed(data.customer, data.sandbox.day, data.transactions())
    return Answer("pulled", None, listed)


def _transaction(data: Data) -> Answer:
    """View a transaction, or change its note."""
    wanted = data.given["id"]
    record = next((each for each in data.transactions() if each.get("id") == wanted), None)
    if record is None:
        return Answer.error("not_found", "Transaction not found", 404)
    if "note" not in data.given:
        return Answer("found", "Successful", record)
    changes = {"note": data.given["note"], **data.modified()}
    data.sandbox.linked.notes.setdefault(data.customer, {})[wanted] = changes
    return Answer("updated", "Successful", {**record, **changes})


def _list_accounts(data: Data) -> Answer:
    return Answer("listed", None, [data.shown(account) for account in data.accounts().values()])


def _add_account(data: Data) -> Answer:
    place, sandbox = (data.given["bank_code"], data.given["account_number"]), data.sandbox
    try:
        added = sandbox.linked.add(data.customer, data.owner, *place, sandbox.day)
    except ValueError as fault:
        return Answer.error("malformed", str(fault))
    return Answer("added", "Successful", added)


def _on_account(word: str) -> Work:
    """View, rename, remove or synchronise one bank account."""

    def work(data: Data) -> Answer:
        accounts, wanted = data.accounts(), data.given.get("id") or data.given["account_id"]
        record = accounts.get(wanted)
        if record is None:
            return Answer.error("not_found", "Bank account not found", 404)
        if word == "deleted":
            del accounts[wanted]
            return Answer(word, "Successful", {})
        if word == "updated":
            record |= {"account_name": data.given["account_name"], **data.modified()}
        if word == "synced":
            record["last_synced"] = noon(data.sandbox.day)
        return Answer(word, "Successful", data.shown(record))

    return work


def _view_profile(data: Data) -> Answer:
    return Answer("found", "Successful", profile_of(data.customer, data.owner))


def _for_scope(scope: str, work: Work) -> Callable[[Call], Answer]:
    """Do something for whom it was granted to (service.md, "Authentication" 4)."""

    def answer(call: Call) -> Answer:
        grants = call.sandbox.grants
        grant = grants.find(call.fields["token"])
        if grant is None:  # a reset came between
            return Answer.error("unknown_token", UNAUTHORISED, 403)
        if scope not in grant.scopes:
            grants.count(grant.customer, "refused_scopes")
            text = f"Access denied: scope {scope} was not granted"
            return Answer.error("scope_missing", text, 403)
        grants.count(grant.customer, "data_calls")
        return work(Data(call.sandbox, grant.customer, call.fields))

    return answer


_ON_DATA: Final[tuple[tuple[str, str, str, Work, type[BaseModel] | None], ...]] = (
    ("transaction:list", "GET", "/transactions", _list_transactions, None),
    ("transaction:view", "GET", "/transactions/{id}", _transaction, None),
    ("transaction:update", "PATCH", "/transactions/{id}", _transaction, _NOTE),
    ("bank_account:list", "GET", "/bank-accounts", _list_accounts, None),
    ("bank_account:add", "POST", "/bank-accounts", _add_account, _NEW),
    ("bank_account:sync", "POST", "/bank-accounts/sync", _on_account("synced"), _SYNC),
    ("bank_account:view", "GET", "/bank-accounts/{id}", _on_account("found"), None),
    (
        *("bank_account:update", "PATCH", "/bank-accounts/{id}"),
        *(_on_account("updated"), _NAME),
    ),
    ("bank_account:delete", "DELETE", "/bank-accounts/{id}", _on_account("deleted"), None),
    ("profile:view", "GET", "/profile", _view_profile, None),
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
