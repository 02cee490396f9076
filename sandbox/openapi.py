"""The OpenAPI document, written by hand after the specification: the whole, and area B.

It describes the wire as the default manners have it. Its schemas are open: the service may send
keys that nobody knows.
"""

from __future__ import annotations

from typing import Final

from nightscreen.sandbox import openapi_aggregator, openapi_loans
from nightscreen.sandbox.blacklist import FORMS
from nightscreen.sandbox.openapi_parts import (
    BVN,
    DAY,
    MOMENT,
    NUMBER,
    WHOLE,
    Schema,
    operation,
    parameter,
    ref,
    shape,
    text,
    texts,
)

_OR_NULL: Final[Schema] = {"type": ["string", "null"]}
_OFTEN_MISSING: Final = (
    *("middle_name", "mobile", "registration_date", "email", "gender", "marital_status"),
    *("residential_address", "state_of_origin", "image_url"),
)


def _envelope(data: Schema, *words: str) -> Schema:
    return shape(
        {
            "status": {"type": "string", "enum": list(words or ("success",))},
            "message": text(),
            "data": data,
            "meta": ref("Meta"),
        }
    )


def _linked_account() -> Schema:
    return shape(
        {
            **texts("account_name", "account_number", "bank_name", "bank_code"),
            "account_status": WHOLE,
            **texts("account_designation", "account_type"),
        }
    )


def _ecosystem() -> Schema:
    counts = (
        *("age", "lenders", "loans", "settled_loans", "running_loans", "past_due_loans"),
        *("delayed_paid_loans", "logins", "credit_delinquency"),
    )
    amounts = (
        *("loan_amount_minimum", "loan_amount_maximum", "loan_amount_average"),
        "past_due_loan_amount_due",
    )
    moments = (
        *("date_of_birth", "first_account", "last_account", "first_login", "last_login"),
        "processed_on",
    )
    return shape(
        {
            "bvn": text(BVN),
            **texts("first_name", "last_name"),
            **dict.fromkeys(counts, WHOLE),
            **dict.fromkeys(amounts, NUMBER),
            **dict.fromkeys(moments, MOMENT),
        }
    )


def _schemas() -> dict[str, Schema]:
    details = shape(
        {
            "reference": WHOLE,
            "bvn": text(BVN),
            **texts("first_name", "last_name"),
            "dob": DAY,
            "watchlisted": WHOLE,
        },
        {
            "accounts": {"type": "array", "items": _linked_account()},
            "enrollment_bank": text("[0-9]{3}"),
            **dict.fromkeys(_OFTEN_MISSING, _OR_NULL),
        },
    )
    karma = shape(
        {
            "karma_identity": text(),
            "amount_in_contention": text(r"[0-9]+\.[0-9]{2}"),
            "reason": {"type": ["string", "null"]},
            "default_date": DAY,
            "karma_type": shape(texts("karma")),
            "karma_identity_type": shape(texts("identity_type")),
            "reporting_entity": shape(texts("name", "email")),
        }
    )
    bank = {
        "bank_code": text("[0-9]{3}"),
        "account_name": text(),
        "account_number": text("[0-9]{10}"),
        "bvn": text(BVN),
    }
    return {
        "Meta": shape({"balance": NUMBER}, {"cost": NUMBER}),
        "Error": shape(
            {"status": {"type": "string", "enum": ["error", "success"]}, "message": text()},
            {"meta": ref("Meta"), "data": {"type": "null"}},
        ),
        "Karma": _envelope(karma),
        "Ecosystem": _envelope(_ecosystem()),
        "BankAccount": _envelope(shape(bank)),
        "Selfie": _envelope(shape({"match": {"type": "boolean"}, "similarity": NUMBER})),
        "BvnStart": _envelope(text(), "otp"),
        "BvnFinish": _envelope({"anyOf": [details, {"type": "array", "items": _linked_account()}]}),
    }


def _paths() -> dict[str, Schema]:
    bvn = parameter("bvn", text(BVN))
    usual = "400 401 402 403"
    filled: Schema = {"type": "string", "minLength": 1}
    image: Schema = {"type": "string", "format": "uri", "pattern": "^https?://"}
    account: dict[str, Schema] = {
        "account_number": text("[0-9]{10}"),
        "bank_code": text("[0-9]{3}"),
    }
    identity: Schema = {
        "type": "string",
        "minLength": 1,
        "description": f"one of: {', '.join(FORMS)}, percent-encoded; anything else is a miss",
    }
    return {
        "/v2/verification/bvn/{bvn}/accounts": {
            "parameters": bvn,
            "post": operation(
                *("bvn_start", "a one-time password is on its way", "BvnStart"),
                f"{usual} 404 500 504",
                {"contact": filled},
            ),
            "put": operation(
                *("bvn_finish", "the BVN record", "BvnFinish"), f"{usual} 500 504", {"otp": filled}
            ),
        },
        "/v2/verification/bvn/{bvn}/selfies": {
            "parameters": bvn,
            "post": operation(
                *("selfie", "how alike photograph and record are", "Selfie"),
                f"{usual} 404 500 504",
                {"image": image},
            ),
        },
        "/v2/verification/bankaccount/bvn": {
            "post": operation(
                *("bank_account", "who holds the account", "BankAccount"),
                f"{usual} 500 504",
                account,
            ),
        },
        "/v2/verification/karma/{identity}": {
            "parameters": parameter("identity", identity),
            "get": operation("karma", "the entry on the blacklist", "Karma", f"{usual} 404 500"),
        },
        "/v2/verification/ecosystem/{bvn}": {
            "parameters": bvn,
            "get": operation("ecosystem", "the record", "Ecosystem", f"{usual} 404 500"),
        },
    }


def document() -> dict[str, object]:
    """Return the OpenAPI document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "The service, as the sandbox simulates it",
            "version": "2",
            "description": "The wire with the default manners of the sandbox.",
        },
        "security": [{"key": []}],
        "paths": {**_paths(), **openapi_aggregator.paths(), **openapi_loans.paths()},
        "components": {
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
                **openapi_aggregator.SECURITY,
            },
            "schemas": {
                **_schemas(),
                **openapi_aggregator.schemas(),
                **openapi_loans.schemas(),
            },
        },
    }
