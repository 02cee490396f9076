"""Area C, loans: its operations, and the form behind a short link. The loans are in `loan_book`."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from pydantic import BaseModel

from nightscreen.sandbox import wire
from nightscreen.sandbox.auth import by_key_for_links
from nightscreen.sandbox.loan_book import (
    KOBO,
    PRODUCTS,
    SHORT_LINK,
    Application,
    Loan,
    LoanBook,
    magic_person,
    user_of_contact,
)
from nightscreen.sandbox.pages import HTML, page_reply, render, secure_headers
from nightscreen.sandbox.people import contact_key
from nightscreen.sandbox.request_pipeline import Answer, Operation, Subject
from nightscreen.sandbox.wire import Reply

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from nightscreen.sandbox.state import Sandbox


class LoanMeta(BaseModel):
    """What the lender knows of the customer; the form is filled in with it."""

    email: str | None = None
    phone_number: str | None = None


class LoanBody(BaseModel):
    """A product to offer."""

    product_id: str
    meta: LoanMeta | None = None


def _read_start(_sandbox: Sandbox, subject: Subject, body: dict[str, object]) -> None:
    """Take the customer from `meta`; it and its parts may be left out."""
    meta = body.get("meta")
    if meta is not None and not isinstance(meta, dict):
        subject.refusal = subject.refusal or "meta must be an object"
    given: dict[str, Any] = meta if isinstance(meta, dict) else {}
    fields = subject.fields
    for name in LoanMeta.model_fields:
        value = given.get(name)
        fields[name] = value if isinstance(value, str) else ""
        if value is not None and not isinstance(value, str):
            subject.refusal = subject.refusal or f"meta.{name} must be a string"
    told = (fields["product_id"], fields["email"], fields["phone_number"])
    subject.identity = " ".join(value for value in told if value)
    subject.hangs = "missing_field" if subject.missing else ""
    subject.row = magic_person(*told[1:])


def _read_view(_sandbox: Sandbox, subject: Subject, _body: dict[str, object]) -> None:
    subject.identity = subject.fields.get("reference", "products")


def _answer(sandbox: Sandbox, subject: Subject) -> Answer:
    """List the products, start a loan, or show where one stands."""
    given = subject.fields
    if not sandbox.manners.distributor:
        text = "This offer is not available. Contact support to be set up as a distributor."
        return Answer.error("no_distributor", text)
    if "product_id" in given:
        known = {product.product_id: product for product in PRODUCTS}
        product = known.get(given["product_id"])
        if product is None:
            return Answer.error("unknown_product", "Loan product not found")
        loan = sandbox.loans.offer(product, given["email"], given["phone_number"], sandbox.day)
        return _started(loan.reference, given["origin"] + loan.path)
    if "reference" not in given:
        return _products()
    found = sandbox.loans.loans.get(given["reference"])
    if found is None:
        return Answer.error("not_found", "Loan not found", 404)
    word = found.place(sandbox.day).status.lower()
    return Answer(word, "Successful", found.as_json(sandbox.day))


def _products() -> Answer:
    return Answer("listed", "Successful", [product.as_json() for product in PRODUCTS])


def _started(reference: str, url: str) -> Answer:
    return Answer("offered", "Loan initialized", {"reference": reference, "url": url})


def _sample_loan() -> Answer:
    loan = LoanBook().offer(PRODUCTS[0], "clear@magic.example", "", 0)
    return Answer("pending", "Successful", loan.as_json(0))


_READ: Final = (by_key_for_links, _read_view, _answer)
OPERATIONS: Final = (
    Operation("loan_products", "GET", "/v2/loans/products", *_READ, _products),
    Operation(
        *("loan_start", "POST", "/v2/loans/initialize", by_key_for_links, _read_start, _answer),
        lambda: _started("SAMPLE000000", f"https://loans.example{SHORT_LINK}/sample00"),
        LoanBody,
    ),
    Operation("loan_view", "GET", "/v2/loans/{reference:path}", *_READ, _sample_loan),
)
"""The operations of area C."""

_HEADINGS: Final = {
    "PENDING": "We have your application",
    "RUNNING": "Your loan is running",
    "SETTLED": "Your loan is paid back",
    "CANCELLED": "Your application is closed",
}
_FIELDS: Final = {
    "first_name": ("First name", "text"),
    "last_name": ("Last name", "text"),
    "date_of_birth": ("Date of birth", "date"),
    "email": ("Email", "email"),
    "phone_number": ("Phone number", "tel"),
    "amount": ("Amount in naira", "text"),
}


async def loan_page(sandbox: Sandbox, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a short link: show the form or the loan, or take the form.

    Whoever has the link is taken for the customer. This is no call of the service: the ledger does
    not have it.
    """
    raw = await wire.read_body(receive) if scope["method"] == "POST" else b""
    loan = sandbox.loans.by_token.get(scope["path_params"]["token"])
    if loan is None:
        reply = _page(404, "This link is not known", loan=None)
    elif scope["method"] == "POST":
        reply = _take(sandbox, loan, dict(parse_qsl(raw.decode("utf-8", "replace"))))
    else:
        reply = _show(sandbox, loan, {})
    await wire.deliver(reply, scope, receive, send)


def _show(sandbox: Sandbox, loan: Loan, given: dict[str, str], problem: str = "") -> Reply:
    place = loan.place(sandbox.day)
    if not place.can_request:
        return _page(200, _HEADINGS[place.status], loan=loan, place=place)
    values = {"email": loan.email, "phone_number": loan.phone_number, **given}
    form = {"fields": _FIELDS, "values": values, "problem": problem}
    title = f"Apply: {loan.product.name}"
    return _page(422 if problem else 200, title, loan=loan, place=None, **form)


def _take(sandbox: Sandbox, loan: Loan, given: dict[str, str]) -> Reply:
    """Take the form, or show it again with what is wrong."""
    if loan.place(sandbox.day).can_request:
        problem = _problem(loan, given)
        if problem:
            return _show(sandbox, loan, given, problem)
        names = given["first_name"], given["last_name"]
        user = user_of_contact(*names, given["email"], contact_key(given["phone_number"]))
        amount = Decimal(given["amount"]).quantize(KOBO)
        loan.application = Application(user, sandbox.day, amount, int(given["tenor"]))
    return Reply(303, b"", HTML, ((b"location", loan.path.encode()),))


def _page(status: int, title: str, **values: object) -> Reply:
    body = render("loan.html", title=title, **values)
    return page_reply(status, body, secure_headers("page.css"))


def _problem(loan: Loan, given: dict[str, str]) -> str:
    """Say what is wrong with a form; empty where nothing is."""
    for name, (label, _) in _FIELDS.items():
        if not given.get(name, "").strip():
            return f"{label} is missing"
    low, high = loan.product.amounts
    try:
        right = low <= Decimal(given["amount"]) <= high
    except InvalidOperation:
        right = False
    if not right:
        return f"Enter an amount from ₦{low:,} to ₦{high:,}"
    if given.get("tenor") not in {str(tenor) for tenor in loan.product.tenors}:
        return "Choose for how long you want to borrow"
    return "" if given.get("consent") == "yes" else "Agree to the lender's checks to go on"
