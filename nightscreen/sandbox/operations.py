"""The operations of the service, by area: what each asks for, finds and answers.

The pipeline handles keys, money and faults; other modules make the records. Of area A only the
first two operations are in the specification; the others were observed (experimental).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, Field, create_model

from nightscreen.sandbox import people, test_identifiers
from nightscreen.sandbox.fiction import SERVICE
from nightscreen.sandbox.grants import NOBODY
from nightscreen.sandbox.loan_book import PRODUCTS, Loan, magic_person
from nightscreen.sandbox.otp import masked_contact, registered_contact
from nightscreen.sandbox.people import ACCOUNT_DIGITS, BANK_CODE_DIGITS, BVN_DIGITS, is_digits
from nightscreen.sandbox.request_pipeline import (
    UNAUTHORISED,
    Call,
    Operation,
    by_key,
    by_token,
)
from nightscreen.sandbox.transactions import (
    bank_accounts_of,
    linked_account,
    malformed,
    profile_of,
    transactions_of,
)
from nightscreen.sandbox.wire import Answer

if TYPE_CHECKING:
    from nightscreen.sandbox.people import Record
    from nightscreen.sandbox.transactions import Owner

Work = Callable[[Call], Answer]

_REFUSALS: Final[dict[str, str]] = SERVICE["refusals"]
"""What the caller is told where a code, token or password is refused, by outcome."""

OPERATIONS: Final[list[Operation]] = []
"""Every operation, in the order in which addresses are tried."""


def _operation(
    name: str,
    method: str,
    path: str,
    read: Callable[[Call], None],
    sample: Callable[[], Answer],
    body: type[BaseModel] | dict[str, str] | None = None,
    door: Callable[[Call], Answer | None] = by_key,
) -> Callable[[Work], Work]:
    """Make a function the answer of an operation; see `Operation`.

    The body is a model, or what each of its texts means, all of them required.
    """
    if isinstance(body, dict):
        given: dict[str, Any] = {each: (str, Field(description=body[each])) for each in body}
        body = create_model(f"{name.title().replace('_', '')}Body", **given)

    def add(work: Work) -> Work:
        OPERATIONS.append(Operation(name, method, path, door, read, work, sample, body))
        return work

    return add


def _found(word: str, record: object) -> Answer:
    return Answer(word, "Successful", record)


# --- area B: validation ---

_FORMS: Final = {
    "bvn": (BVN_DIGITS, "Enter a valid BVN number."),
    "account_number": (ACCOUNT_DIGITS, "Enter a valid account number."),
    "bank_code": (BANK_CODE_DIGITS, "Enter a valid bank code."),
}
"""How many digits a field has, and what the service says where it has not."""
_SAMPLE: Final = test_identifiers.by_word("listed")
_SAMPLE_DOMAIN: Final = "0zspgifzbo.ga"
"""The identity of the sample karma record, whatever was asked."""
_VALIDATION: Final = "/v2/verification"
_BVN: Final = f"{_VALIDATION}/bvn/{{bvn:path}}"


def _read(call: Call) -> None:
    """Record what is asked about, and refuse a malformed value."""
    given = call.fields
    for name, (digits, text) in _FORMS.items():
        if name in given and not is_digits(given[name], digits):
            if name == "bvn":
                call.refusal = text  # the path goes before the body
            else:
                call.refuse(text)
    if call.missing:
        call.hangs = "missing_field"
    elif not given.get("image", "http://").startswith(("http://", "https://")):
        call.hangs = "" if call.refusal else "malformed"
    if "account_number" in given:
        place = (given["bank_code"], given["account_number"])
        call.identity = "-".join(place) if any(place) else ""
        call.row = None if call.refusal else test_identifiers.by_account(place[1])
    else:
        call.identity = given.get("identity") or given["bvn"]
        call.row = test_identifiers.by_karma_identity(call.identity)


@_operation(
    *("karma", "GET", f"{_VALIDATION}/karma/{{identity:path}}", _read),
    lambda: _found("listed", people.karma_record(_SAMPLE_DOMAIN, "domain")),
)
def _karma(call: Call) -> Answer:
    """Look an identity up in the blacklist; what is of no known kind is a miss like any other."""
    record = call.sandbox.planted.karma(call.identity, call.sandbox.day)
    if record:
        return _found("listed", record)
    status = call.sandbox.manners.karma_miss.partition("_")[2]
    text = "Identity not found in karma ecosystem"
    return Answer("clear", text, status=status, http_status=404, metered=False)


@_operation(
    *("ecosystem", "GET", f"{_VALIDATION}/ecosystem/{{bvn:path}}", _read),
    lambda: _found("found", people.ecosystem_of(_SAMPLE.bvn)),
)
def _ecosystem(call: Call) -> Answer:
    """Look a BVN up in the borrower history."""
    record = call.sandbox.planted.history(call.identity, call.sandbox.day)
    if record:
        return _found("found", record)
    return Answer.error("not_found", f"{call.identity} not found in ecosystem", 404)


@_operation(
    *("bank_account", "POST", f"{_VALIDATION}/bankaccount/bvn", _read),
    lambda: _found("found", people.account_of("058", _SAMPLE.account_number)),
    {"account_number": "10 digits", "bank_code": "3 digits, of the central bank"},
)
def _bank_account(call: Call) -> Answer:
    """Look up who holds an account."""
    place, sandbox = (call.fields["bank_code"], call.fields["account_number"]), call.sandbox
    record = sandbox.planted.account(*place, sandbox.day, masked=sandbox.manners.masked_bvn)
    if record:
        return _found("found", record)
    return Answer.error("not_found", "Invalid account number", 500)


@_operation(
    *("selfie", "POST", f"{_BVN}/selfies", _read),
    lambda: _found("match", people.selfie_of(_SAMPLE.bvn, "https://images.example/sample.jpg")),
    {"image": "a web address that anyone can open"},
)
def _selfie(call: Call) -> Answer:
    """Compare a photograph with the BVN record."""
    record = people.selfie_of(call.identity, call.fields["image"])
    if record is None:
        return _no_record()
    return _found("match" if record["match"] else "no_match", record)


def _no_record() -> Answer:
    return Answer.error("not_found", "BVN record not found", 404)


def _sent(contact: str) -> Answer:
    text, masked = "Please provide OTP sent to contact", masked_contact(contact)
    return Answer("otp_sent", text, masked, status="otp")


@_operation(
    *("bvn_start", "POST", f"{_BVN}/accounts", _read, lambda: _sent(_SAMPLE.phone)),
    {"contact": "registered phone or email, in any form, or masked"},
)
def _bvn_start(call: Call) -> Answer:
    """Send the one-time password, to a registered contact only."""
    bvn, sandbox = call.identity, call.sandbox
    row = test_identifiers.by_bvn(bvn)
    if row and not row.bvn_known:
        return _no_record()
    registered = sandbox.planted.person(bvn).contacts
    contact = registered_contact(call.fields["contact"], registered)
    if contact is None:  # the form of this refusal was never recorded
        masked = [masked_contact(known) for known in registered]
        text = "The contact is not registered with this BVN"
        if sandbox.manners.wrong_contact == "400_data":
            return Answer.error("wrong_contact", text, data=masked)
        return Answer.error("wrong_contact", f"{text}. Registered contacts: {', '.join(masked)}")
    delivery = (row and row.otp) or "prompt"
    if delivery == "unreachable":
        return Answer.error("unreachable", "Unable to send OTP to the contact of this BVN")
    sandbox.otps.send(bvn, contact, sandbox.now(), delivery)
    return _sent(contact)


@_operation(
    *("bvn_finish", "PUT", f"{_BVN}/accounts", _read),
    lambda: _found("consented", people.bvn_details(_SAMPLE.bvn)),
    {"otp": "six digits, as text"},
)
def _bvn_finish(call: Call) -> Answer:
    """Check the one-time password and return the record, in one of its three shapes."""
    bvn, sandbox = call.identity, call.sandbox
    word = sandbox.otps.give(bvn, call.fields["otp"], sandbox.now())
    if word in _REFUSALS:
        return Answer.error(word, _REFUSALS[word])
    person = sandbox.planted.person(bvn)
    row = test_identifiers.by_bvn(bvn)
    shape: str = (row and row.finish) or sandbox.manners.bvn_finish
    if shape == "accounts":
        return _found("consented", people.bvn_accounts(bvn, person))
    details = people.bvn_details(bvn, person)
    if shape == "together":
        details["accounts"] = people.bvn_accounts(bvn, person)
    return _found("consented", details)


# --- area C: loans ---

_LOANS: Final = "/v2/loans"
_SAMPLE_LOAN: Final = Loan(
    "SAMPLE000000", PRODUCTS["LP1001"], "clear@magic.example", "", 0, "approved"
)


class LoanMeta(BaseModel):
    """What the lender knows of the customer."""

    email: str | None = None
    phone_number: str | None = None


class LoanBody(BaseModel):
    """A product to offer."""

    product_id: str
    meta: LoanMeta | None = None


def _read_start(call: Call) -> None:
    """Take the customer from `meta`; it and its parts may be left out."""
    meta = call.body.get("meta")
    if meta is not None and not isinstance(meta, dict):
        call.refuse("meta must be an object")
    given: dict[str, Any] = meta if isinstance(meta, dict) else {}
    for name in LoanMeta.model_fields:
        value = given.get(name)
        call.fields[name] = value if isinstance(value, str) else ""
        if value is not None and not isinstance(value, str):
            call.refuse(f"meta.{name} must be a string")
    told = [call.fields[name] for name in ("product_id", "email", "phone_number")]
    call.identity = " ".join(value for value in told if value)
    call.hangs = "missing_field" if call.missing else ""
    call.row = magic_person(*told[1:])


def _read_view(call: Call) -> None:
    call.identity = call.fields.get("reference", "products")


def _for_distributors(work: Work) -> Work:
    def answer(call: Call) -> Answer:
        if call.sandbox.manners.distributor:
            return work(call)
        text = "This offer is not available. Contact support to be set up as a distributor."
        return Answer.error("no_distributor", text)

    return answer


def _products() -> Answer:
    return _found("listed", [product.as_json() for product in PRODUCTS.values()])


@_operation("loan_products", "GET", f"{_LOANS}/products", _read_view, _products)
@_for_distributors
def _list_products(_call: Call) -> Answer:
    return _products()


def _started(loan: Loan) -> Answer:
    data = {"reference": loan.reference, "url": loan.url}
    return Answer("offered", "Loan initialized", data)


@_operation(
    *("loan_start", "POST", f"{_LOANS}/initialize", _read_start),
    *(lambda: _started(_SAMPLE_LOAN), LoanBody),
)
@_for_distributors
def _start(call: Call) -> Answer:
    given, sandbox = call.fields, call.sandbox
    product = PRODUCTS.get(given["product_id"])
    if product is None:
        return Answer.error("unknown_product", "Loan product not found")
    return _started(
        sandbox.loans.offer(product, given["email"], given["phone_number"], sandbox.day)
    )


@_operation(
    *("loan_view", "GET", f"{_LOANS}/{{reference:path}}", _read_view),
    lambda: _found("pending", _SAMPLE_LOAN.as_json(0)),
)
@_for_distributors
def _view(call: Call) -> Answer:
    loan, day = call.sandbox.loans.loans.get(call.fields["reference"]), call.sandbox.day
    if loan is None:
        return Answer.error("not_found", "Loan not found", 404)
    return _found(loan.place(day).status.lower(), loan.as_json(day))


# --- area A: data of customers who consented ---

_GRANT_TYPES: Final = ("authorization_code", "refresh_token")
_DATA: Final = "/v2/aggregator"
_SAMPLE_CUSTOMER: Final = "sample@customers.example"


def _owned(call: Call, customer: str) -> None:
    """Note whose call it is; a missing field of area A is refused, where others hang."""
    call.identity = customer
    call.row = test_identifiers.by_customer(customer)
    if call.missing:
        call.refuse(f"{call.missing} is required")


def _read_auth(call: Call) -> None:
    _owned(call, call.sandbox.grants.customer_of(call.fields["code"]))
    if call.fields["grant_type"] not in _GRANT_TYPES:
        call.refuse(f"grant_type must be one of {', '.join(_GRANT_TYPES)}")


def _tokens(word: str, access: str, customer: str, scope: str, refresh: str = "") -> Answer:
    data = {"access_token": access, "token_type": "Bearer", "username": customer, "scope": scope}
    if refresh:
        data["refresh_token"] = refresh
    return Answer(word, data=data, bare=True)


@_operation(
    *("aggregator_auth", "POST", f"{_DATA}/auth", _read_auth),
    lambda: _tokens(  # they give access to nothing
        *("exchanged", "sample-access-token", _SAMPLE_CUSTOMER, "transaction:list"),
        "sample-refresh-token",
    ),
    {
        "code": "the authorization code, or the refresh token",
        "grant_type": " or ".join(_GRANT_TYPES),
        "redirect_uri": "that of the authorization request",
    },
)
def _auth(call: Call) -> Answer:
    """Exchange a code, or refresh: only the exchange answers a refresh token."""
    given, grants, now = call.fields, call.sandbox.grants, call.sandbox.now()
    refreshes = given["grant_type"] == "refresh_token"
    ask = grants.refresh if refreshes else grants.exchange
    grant, token = ask(given["code"], given["redirect_uri"], now)
    if grant is None:
        return Answer.error(token, _REFUSALS[token])
    told = token, grant.customer, " ".join(grant.scopes)
    if refreshes:
        return _tokens("refreshed", *told)
    return _tokens("exchanged", *told, grant.refresh_token)


def _read_data(call: Call) -> None:
    grant = call.sandbox.grants.find(call.fields["token"])
    _owned(call, grant.customer if grant else NOBODY)


def _about(call: Call) -> tuple[str, int, Owner]:
    """Return the customer, the simulated day, and who the customer is."""
    return call.identity, call.sandbox.day, call.sandbox.planted.owner(call.identity)


def _now(call: Call) -> str:
    """Return the noon of the simulated day."""
    return f"{people.FIRST_DAY + timedelta(days=call.sandbox.day)}T12:00:00.000Z"


def _changed(call: Call, record: Record, name: str) -> Answer:
    """Answer with a record as the client wants it in one field; nothing is kept of it."""
    whose = {"modified_on": _now(call), "modified_by": call.identity}
    return Answer("updated", "Successful", {**record, name: call.fields[name], **whose})


def _with_id(records: list[Record], wanted: str) -> Record | None:
    return next((each for each in records if each.get("id") == wanted), None)


def _transactions(call: Call) -> Answer:
    records = transactions_of(*_about(call))
    return Answer("pulled", data=malformed(call.identity, call.sandbox.day, records))


def _transaction(call: Call) -> Answer:
    """View a transaction, or change its note."""
    record = _with_id(transactions_of(*_about(call)), call.fields["id"])
    if record is None:
        return Answer.error("not_found", "Transaction not found", 404)
    if "note" in call.fields:
        return _changed(call, record, "note")
    return _found("found", record)


def _accounts(call: Call) -> Answer:
    return Answer("listed", data=bank_accounts_of(*_about(call)))


def _add_account(call: Call) -> Answer:
    code, number, day = call.fields["bank_code"], call.fields["account_number"], call.sandbox.day
    right = is_digits(code, BANK_CODE_DIGITS) and is_digits(number, ACCOUNT_DIGITS)
    holder = people.holder_of(code, number, day=day) if right else None
    if holder is None:
        return Answer.error("malformed", "Enter a valid account number and bank code.")
    name = people.account_name(holder, code, number)
    return _found("added", linked_account(call.identity, code, number, name, day))


def _account(call: Call) -> Answer:
    """View a bank account, rename it, or synchronise it."""
    given = call.fields
    record = _with_id(bank_accounts_of(*_about(call)), given.get("id") or given["account_id"])
    if record is None:
        return Answer.error("not_found", "Bank account not found", 404)
    if "account_name" in given:
        return _changed(call, record, "account_name")
    if "account_id" in given:
        return _found("synced", {**record, "last_synced": _now(call)})
    return _found("found", record)


def _remove_account(call: Call) -> Answer:
    found = _account(call)
    return _found("deleted", {}) if found.word == "found" else found


def _profile(call: Call) -> Answer:
    customer, _day, owner = _about(call)
    return _found("found", profile_of(customer, owner))


def _for_scope(scope: str, work: Work) -> Work:
    """Answer those to whom a scope is granted (service.md, "Authentication" 4)."""

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


_DATA_OPERATIONS: Final = (
    ("transaction:list", "GET", "transactions", _transactions),
    ("transaction:view", "GET", "transactions/{id}", _transaction),
    ("transaction:update", "PATCH", "transactions/{id}", _transaction),
    ("bank_account:list", "GET", "bank-accounts", _accounts),
    ("bank_account:add", "POST", "bank-accounts", _add_account),
    ("bank_account:sync", "POST", "bank-accounts/sync", _account),
    ("bank_account:view", "GET", "bank-accounts/{id}", _account),
    ("bank_account:update", "PATCH", "bank-accounts/{id}", _account),
    ("bank_account:delete", "DELETE", "bank-accounts/{id}", _remove_account),
    ("profile:view", "GET", "profile", _profile),
)
"""Scope, method, path and answer of each operation that needs an access token."""
_BODIES: Final = {
    "transaction:update": {"note": "another note on a transaction"},
    "bank_account:add": {"account_number": "10 digits", "bank_code": "3 digits"},
    "bank_account:sync": {"account_id": "the bank account to synchronise"},
    "bank_account:update": {"account_name": "another name of a linked bank account"},
}
"""Texts of a body by scope, all of them required."""
for _scope, _method, _path, _work in _DATA_OPERATIONS:
    # its name is the scope's, but for the one that the specification names by its path
    _name = _scope.replace(":", "_").replace("transaction_list", "transactions")
    _operation(
        *(f"aggregator_{_name}", _method, f"{_DATA}/{_path}", _read_data),
        lambda: Answer("sample", data=transactions_of(_SAMPLE_CUSTOMER)[:1]),
        _BODIES.get(_scope),
        by_token,
    )(_for_scope(_scope, _work))
