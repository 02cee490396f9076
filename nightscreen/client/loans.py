"""Pure builders of area C: products, the short link to a loan application, and a loan.

The credential is the same API key (specification, authentication 8, does not say). What does not
belong here: which customers get an offer (`operations/`).
"""

from __future__ import annotations

from nightscreen.schemas.checks import Operation
from nightscreen.schemas.requests import Request, json_body, require, segment

LOANS = "/v2/loans"


def products() -> Request:
    """Build the list of the organisation's active loan products (`/v2/loans/products`)."""
    return Request(Operation.LOAN_PRODUCTS, "GET", f"{LOANS}/products", None)


def initialize(product_id: str, *, email: str = "", phone_number: str = "") -> Request:
    """Build the making of a short link (`/v2/loans/initialize`).

    Each call makes a new link: it is never repeated by machine after it may have arrived.
    """
    require(product_id, "an offer needs a product; see: nightscreen loans products")
    given = {"email": email, "phone_number": phone_number}
    meta = {name: value for name, value in given.items() if value}
    body = json_body(product_id=product_id, **({"meta": meta} if meta else {}))
    return Request(Operation.LOAN_START, "POST", f"{LOANS}/initialize", body)


def loan(reference: str) -> Request:
    """Build the view of a loan or loan request (`/v2/loans/:reference`)."""
    path = f"{LOANS}/{segment(reference)}"
    return Request(Operation.LOAN_VIEW, "GET", path, None, asked=reference)
