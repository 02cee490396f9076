"""Area C, loans: its operations. What becomes of a loan is in `loan_book`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel

from nightscreen.sandbox.loan_book import PRODUCTS, Loan, magic_person
from nightscreen.sandbox.request_pipeline import Operation, by_key
from nightscreen.sandbox.wire import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from nightscreen.sandbox.request_pipeline import Call


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
    return _started(
        sandbox.loans.offer(product, given["email"], given["phone_number"], sandbox.day)
    )


def _started(loan: Loan) -> Answer:
    data = {"reference": loan.reference, "url": loan.url}
    return Answer("offered", "Loan initialized", data)


def _view(call: Call) -> Answer:
    loan, day = call.sandbox.loans.loans.get(call.fields["reference"]), call.sandbox.day
    if loan is None:
        return Answer.error("not_found", "Loan not found", 404)
    return Answer(loan.place(day).status.lower(), "Successful", loan.as_json(day))


def _products(_call: Call | None = None) -> Answer:
    return Answer("listed", "Successful", [product.as_json() for product in PRODUCTS.values()])


_SAMPLE: Final = Loan("SAMPLE000000", PRODUCTS["LP1001"], "clear@magic.example", "", 0, "approved")

OPERATIONS: Final = tuple(
    Operation(
        name, method, f"/v2/loans/{path}", by_key, read, _for_distributors(work), sample, body
    )
    for name, method, path, read, work, sample, body in (
        ("loan_products", "GET", "products", _read_view, _products, _products, None),
        (
            *("loan_start", "POST", "initialize", _read_start, _start),
            *(lambda: _started(_SAMPLE), LoanBody),
        ),
        (
            *("loan_view", "GET", "{reference:path}", _read_view, _view),
            *(lambda: Answer("pending", "Successful", _SAMPLE.as_json(0)), None),
        ),
    )
)
"""The operations of area C."""
