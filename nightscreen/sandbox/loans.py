"""Area C, loans: its operations, and the form behind a short link. The loans are in `loan_book`."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Form, Response
from fastapi.responses import RedirectResponse
from pydantic import BaseModel

from nightscreen.sandbox.loan_book import (
    KOBO,
    PRODUCTS,
    SHORT_LINK,
    Application,
    Loan,
    LoanBook,
    magic_person,
)
from nightscreen.sandbox.pages import page
from nightscreen.sandbox.request_pipeline import Answer, Operation, by_key
from nightscreen.sandbox.state import Here  # noqa: TC001 - FastAPI reads it

if TYPE_CHECKING:
    from collections.abc import Callable

    from nightscreen.sandbox.request_pipeline import Call

router: Final = APIRouter()


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


def _for_distributors(work: Callable[[Call], Answer]) -> Callable[[Call], Answer]:
    def answer(call: Call) -> Answer:
        if call.sandbox.manners.distributor:
            return work(call)
        text = "This offer is not available. Contact support to be set up as a distributor."
        return Answer.error("no_distributor", text)

    return answer


def _start(call: Call) -> Answer:
    given, sandbox = call.fields, call.sandbox
    product = PRODUCTS.get(given["product_id"])
    if product is None:
        return Answer.error("unknown_product", "Loan product not found")
    loan = sandbox.loans.offer(product, given["email"], given["phone_number"], sandbox.day)
    host = call.header(b"host") or "localhost"
    return _started(loan.reference, f"{call.scope['scheme']}://{host}{loan.path}")


def _view(call: Call) -> Answer:
    loan, day = call.sandbox.loans.loans.get(call.fields["reference"]), call.sandbox.day
    if loan is None:
        return Answer.error("not_found", "Loan not found", 404)
    return Answer(loan.place(day).status.lower(), "Successful", loan.as_json(day))


def _products() -> Answer:
    return Answer("listed", "Successful", [product.as_json() for product in PRODUCTS.values()])


def _started(reference: str, url: str) -> Answer:
    return Answer("offered", "Loan initialized", {"reference": reference, "url": url})


def _sample_link() -> Answer:
    return _started("SAMPLE000000", f"https://loans.example{SHORT_LINK}/SAMPLE000000")


def _sample_loan() -> Answer:
    loan = LoanBook().offer(PRODUCTS["LP1001"], "clear@magic.example", "", 0)
    return Answer("pending", "Successful", loan.as_json(0))


OPERATIONS: Final = tuple(
    Operation(
        name, method, f"/v2/loans/{path}", by_key, read, _for_distributors(work), sample, body
    )
    for name, method, path, read, work, sample, body in (
        ("loan_products", "GET", "products", _read_view, lambda _: _products(), _products, None),
        ("loan_start", "POST", "initialize", _read_start, _start, _sample_link, LoanBody),
        ("loan_view", "GET", "{reference:path}", _read_view, _view, _sample_loan, None),
    )
)
"""The operations of area C."""

_HEADINGS: Final = {
    "PENDING": "We have your application",
    "RUNNING": "Your loan is running",
    "SETTLED": "Your loan is paid back",
    "CANCELLED": "Your application is closed",
}


@router.get(SHORT_LINK + "/{reference}")
async def show(reference: str, sandbox: Here) -> Response:
    """Show the form or the loan; whoever has the link is taken for the customer."""
    loan = sandbox.loans.loans.get(reference)
    return _show(loan, sandbox.day) if loan else _unknown()


@router.post(SHORT_LINK + "/{reference}")
async def take(
    reference: str,
    sandbox: Here,
    amount: Annotated[str, Form()] = "",
    tenor: Annotated[str, Form()] = "",
    consent: Annotated[str, Form()] = "",
) -> Response:
    """Take the form, or show it again with what is wrong. The ledger does not have it."""
    loan = sandbox.loans.loans.get(reference)
    if loan is None:
        return _unknown()
    if loan.place(sandbox.day).can_request:
        problem = _problem(loan, amount, tenor, consent)
        if problem:
            return _show(loan, sandbox.day, amount, problem)
        naira = Decimal(amount).quantize(KOBO)
        loan.application = Application(sandbox.day, naira, int(tenor))
    return RedirectResponse(loan.path, 303)


def _unknown() -> Response:
    return page("loan.html", status=404, title="This link is not known", loan=None)


def _show(loan: Loan, day: int, amount: str = "", problem: str = "") -> Response:
    place = loan.place(day)
    applies = place.can_request
    title = f"Apply: {loan.product.name}" if applies else _HEADINGS[place.status]
    return page(
        "loan.html",
        status=422 if problem else 200,
        title=title,
        loan=loan,
        place=None if applies else place,
        amount=amount,
        problem=problem,
    )


def _problem(loan: Loan, amount: str, tenor: str, consent: str) -> str:
    """Say what is wrong with a form; empty where nothing is."""
    low, high = loan.product.amounts
    try:
        right = low <= Decimal(amount) <= high
    except InvalidOperation:
        right = False
    if not right:
        return f"Enter an amount from ₦{low:,} to ₦{high:,}"
    if tenor not in {str(each) for each in loan.product.tenors}:
        return "Choose for how long you want to borrow"
    return "" if consent == "yes" else "Agree to the lender's checks to go on"
