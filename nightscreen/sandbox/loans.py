"""Area C, loans: the three operations of distributors, their input and what they answer.

This module reads requests and chooses answers. `sandbox.auth` and `sandbox.faults` handle keys and
faults, `sandbox.loan_book` has the state of a loan, and `sandbox.loan_pages` the form behind the
short link.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nightscreen.sandbox import loan_book
from nightscreen.sandbox.auth import KeyAuth, header
from nightscreen.sandbox.loan_book import SHORT_LINK, LoanBook, magic_row, product_of
from nightscreen.sandbox.request_pipeline import Answer, Operation, Subject

if TYPE_CHECKING:
    from starlette.types import Scope

    from nightscreen.sandbox.state import Sandbox

_NO_OFFER: Final = Answer(
    "no_distributor",
    "This offer is not available. Contact support to be set up as a distributor.",
    http_status=400,
)
_SAMPLE_ORIGIN: Final = "https://loans.example"


def _refused(sandbox: Sandbox) -> Answer | None:
    return None if sandbox.manners.distributor else _NO_OFFER


def origin(scope: Scope) -> str:
    """Return the address under which the sandbox was reached."""
    host = header(scope, b"host").decode("latin-1") or "localhost"
    return f"{scope['scheme']}://{host}"


class LoanAuth(KeyAuth):
    """Lets in who has the API key, and notes where short links are to lead."""

    def read(self, operation: Operation, scope: Scope, body: dict[str, object]) -> Subject:
        """Read a request, and the address it was sent to."""
        subject = super().read(operation, scope, body)
        subject.fields["origin"] = origin(scope)
        return subject


def _started(reference: str, url: str) -> Answer:
    return Answer("offered", "Loan initialized", {"reference": reference, "url": url})


def _products() -> Answer:
    return Answer("listed", "Successful", [product.as_json() for product in loan_book.PRODUCTS])


def _read_start(_path: dict[str, str], body: dict[str, object]) -> Subject:
    """Take product and customer from the body; `meta` and its parts may be left out."""
    product_id, meta = body.get("product_id"), body.get("meta")
    missing = product_id is None or product_id == ""
    refusal = "" if missing or isinstance(product_id, str) else "product_id must be a string"
    if meta is not None and not isinstance(meta, dict):
        refusal = refusal or "meta must be an object"
    given = meta if isinstance(meta, dict) else {}
    fields = {"product_id": product_id if isinstance(product_id, str) else ""}
    for name in ("email", "phone_number"):
        value = given.get(name)
        fields[name] = value if isinstance(value, str) else ""
        if value is not None and not isinstance(value, str):
            refusal = refusal or f"meta.{name} must be a string"
    return Subject(
        " ".join(value for value in fields.values() if value),
        fields,
        missing=missing,
        refusal=refusal,
        special=magic_row(fields["email"], fields["phone_number"]),
    )


def _start(sandbox: Sandbox, subject: Subject) -> Answer:
    """Open a loan, and make the short link to its form."""
    given = subject.fields
    product = product_of(given["product_id"])
    if product is None:
        return Answer("unknown_product", "Loan product not found", http_status=400)
    loan = sandbox.loans.offer(product, given["email"], given["phone_number"], sandbox.day)
    return _started(loan.reference, f"{given['origin']}{loan.path}")


def _view(sandbox: Sandbox, subject: Subject) -> Answer:
    """Return the loan's state today."""
    loan = sandbox.loans.loans.get(subject.identity)
    if loan is None:
        return Answer("not_found", "Loan not found", miss="404_error")
    place = loan.place(sandbox.day)
    return Answer(place.status.lower(), "Successful", loan.as_json(place))


def _sample_loan() -> Answer:
    loan = LoanBook().offer(loan_book.PRODUCTS[0], "clear@magic.example", "", 0)
    return Answer("pending", "Successful", loan.as_json(loan.place(0)))


PRODUCTS: Final = Operation(
    "loan_products",
    lambda _path, _body: Subject("products"),
    lambda sandbox, _subject: _refused(sandbox) or _products(),
    _products,  # in test mode too
)
START: Final = Operation(
    "loan_start",
    _read_start,
    lambda sandbox, subject: _refused(sandbox) or _start(sandbox, subject),
    lambda: _started("SAMPLE000000", f"{_SAMPLE_ORIGIN}{SHORT_LINK}/sample00"),
)
VIEW: Final = Operation(
    "loan_view",
    lambda path, _body: Subject(path["reference"]),
    lambda sandbox, subject: _refused(sandbox) or _view(sandbox, subject),
    _sample_loan,
)

ROUTES: Final = {
    "/v2/loans/products": {"GET": PRODUCTS},
    "/v2/loans/initialize": {"POST": START},
    "/v2/loans/{reference:path}": {"GET": VIEW},
}
"""Paths of area C, and the operation behind each method."""
