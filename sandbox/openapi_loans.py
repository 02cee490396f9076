"""Area C in the OpenAPI document: products, the short link, and loans.

The fields beyond `product_id`, and the whole loan record, are not in the specification. The hosted
form behind the short link is a page for people and is not described here.
"""

from __future__ import annotations

from typing import Final

from nightscreen.sandbox.loan_book import WORDS
from nightscreen.sandbox.openapi_parts import (
    JSON,
    MOMENT,
    NUMBER,
    WHOLE,
    Schema,
    operation,
    parameter,
    shape,
    text,
    texts,
)

_FILLED: Final[Schema] = {"type": "string", "minLength": 1}
_FLAG: Final[Schema] = {"type": "integer", "enum": [0, 1]}
_YES_OR_NO: Final[Schema] = {"type": "boolean"}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _envelope(data: Schema) -> Schema:
    """Describe the envelope of area C, which has no `meta`."""
    success: Schema = {"type": "string", "enum": ["success"]}
    return shape({"status": success, "message": text(), "data": data})


def _product() -> Schema:
    return shape(
        {
            **texts("product_id", "name", "description", "disburse_to", "collection_method"),
            "interest_rate": NUMBER,
            **dict.fromkeys(
                ("interest_period", "min_tenor_period", "max_tenor_period"), _or_null(text())
            ),
            **dict.fromkeys(("min_amount", "max_amount"), NUMBER),
            **dict.fromkeys(("min_tenor_value", "max_tenor_value"), WHOLE),
            **dict.fromkeys(("require_guarantor", "allows_early_settlement", "is_active"), _FLAG),
        }
    )


def _loan() -> Schema:
    status = shape(
        {
            "status": {"type": "string", "enum": list(WORDS)},
            "can_request": _YES_OR_NO,
            "can_cancel": _YES_OR_NO,
        }
    )
    people = ("first_name", "last_name", "email", "phone_number")
    moments = ("applied_on", "disbursed_on", "settled_on")
    return shape(
        {
            **texts("reference", "product_id", "product_name", "tenor_period"),
            "status": status,
            "loan_amount": _or_null(NUMBER),
            "amount_disbursed": NUMBER,
            "paid": NUMBER,
            "tenor_value": _or_null(WHOLE),
            "reject_reason": _or_null(text()),
            "user": shape(dict.fromkeys(people, _or_null(text()))),
            "created_on": MOMENT,
            **dict.fromkeys(moments, _or_null(MOMENT)),
        }
    )


def schemas() -> dict[str, Schema]:
    """Return the schemas of area C by name."""
    link = shape({"reference": text(), "url": {"type": "string", "format": "uri"}})
    return {
        "LoanProducts": _envelope({"type": "array", "items": _product()}),
        "LoanLink": _envelope(link),
        "Loan": _envelope(_loan()),
    }


def _start() -> Schema:
    contacts = {"email": _or_null(text()), "phone_number": _or_null(text())}
    body = shape({"product_id": _FILLED}, {"meta": _or_null(shape({}, contacts))})
    described = operation(
        *("loan_start", "a short link to the loan form", "LoanLink", "400 401 403 500 504")
    )
    described["requestBody"] = {"required": True, "content": {JSON: {"schema": body}}}
    return described


def paths() -> dict[str, Schema]:
    """Return the paths of area C."""
    usual = "400 401 403"
    return {
        "/v2/loans/products": {
            "get": operation(
                "loan_products", "the active products", "LoanProducts", f"{usual} 500"
            ),
        },
        "/v2/loans/initialize": {"post": _start()},
        "/v2/loans/{reference}": {
            "parameters": parameter("reference", _FILLED),
            "get": operation("loan_view", "where the loan stands", "Loan", f"{usual} 404 500"),
        },
    }
