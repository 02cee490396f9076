"""The OpenAPI document of area B, written by hand after the specification.

It describes the wire as the default manners have it. Its schemas are open: the service may send
keys that nobody knows.
"""

from __future__ import annotations

from typing import Final

from sandbox.blacklist import LISTED_SHARE

Schema = dict[str, object]

BVN: Final = "[0-9]{11}"
_JSON: Final = "application/json"


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    return {
        "type": "object",
        "required": list(required),
        "properties": {**required, **(optional or {})},
    }


def _text(pattern: str = "") -> Schema:
    return {"type": "string", "pattern": f"^{pattern}$"} if pattern else {"type": "string"}


_WHOLE: Final[Schema] = {"type": "integer"}
_NUMBER: Final[Schema] = {"type": "number"}
_DAY: Final[Schema] = {"type": "string", "format": "date"}
_MOMENT: Final[Schema] = {"type": "string", "format": "date-time"}


def _texts(*names: str) -> dict[str, Schema]:
    return {name: _text() for name in names}


def _envelope(data: Schema, *words: str) -> Schema:
    return _object(
        {
            "status": {"type": "string", "enum": list(words or ("success",))},
            "message": _text(),
            "data": data,
            "meta": _ref("Meta"),
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
    return _object(
        {
            "bvn": _text(BVN),
            **_texts("first_name", "last_name"),
            **dict.fromkeys(counts, _WHOLE),
            **dict.fromkeys(amounts, _NUMBER),
            **dict.fromkeys(moments, _MOMENT),
        }
    )


def _schemas() -> dict[str, Schema]:
    details = _object(
        {
            "reference": _WHOLE,
            "bvn": _text(BVN),
            **_texts("first_name", "middle_name", "last_name", "mobile", "registration_date"),
            "dob": _DAY,
            "enrollment_bank": _text("[0-9]{3}"),
            **_texts("email", "gender", "marital_status", "residential_address"),
            **_texts("state_of_origin", "image_url"),
            "watchlisted": _WHOLE,
        }
    )
    account = _object(
        _texts(
            *("account_name", "account_number", "bank_name", "bank_code"),
            *("account_status", "account_type"),
        )
    )
    karma = _object(
        {
            "karma_identity": _text(),
            "amount_in_contention": _text(r"[0-9]+\.[0-9]{2}"),
            "reason": {"type": ["string", "null"]},
            "default_date": _DAY,
            "karma_type": _object(_texts("karma")),
            "karma_identity_type": _object(_texts("identity_type")),
            "reporting_entity": _object(_texts("name", "email")),
        }
    )
    bank = {
        "bank_code": _text("[0-9]{3}"),
        "account_name": _text(),
        "account_number": _text("[0-9]{10}"),
        "bvn": _text(BVN),
    }
    return {
        "Meta": _object({"balance": _NUMBER}, {"cost": _NUMBER}),
        "Error": _object(
            {"status": {"type": "string", "enum": ["error", "success"]}, "message": _text()},
            {"meta": _ref("Meta"), "data": {"type": "null"}},
        ),
        "Karma": _envelope(karma),
        "Ecosystem": _envelope(_ecosystem()),
        "BankAccount": _envelope(_object(bank)),
        "Selfie": _envelope(_object({"match": {"type": "boolean"}, "similarity": _NUMBER})),
        "BvnStart": _envelope(_text(), "otp"),
        "BvnFinish": _envelope({"anyOf": [details, {"type": "array", "items": account}]}),
    }


_ERRORS: Final = {
    "400": "the input is malformed; malformed JSON is answered with an HTML page",
    "401": "no Authorization header",
    "402": "the wallet is too low for this operation",
    "403": "wrong key, or no right to this operation",
    "404": "nothing is known of this identifier",
    "500": "no price for this operation, or the account does not exist",
    "504": "a required field is missing or empty",
}


def _error(status: str) -> Schema:
    content: Schema = {_JSON: {"schema": _ref("Error")}}
    if status == "400":
        content["text/html"] = {"schema": _text()}
    if status == "504":
        content = {"text/plain": {"schema": _text()}}
    return {"description": _ERRORS[status], "content": content}


def _operation(
    name: str, summary: str, schema: str, errors: str, fields: dict[str, Schema] | None = None
) -> Schema:
    responses: Schema = {
        "200": {"description": summary, "content": {_JSON: {"schema": _ref(schema)}}}
    }
    responses.update({status: _error(status) for status in errors.split()})
    described: Schema = {"operationId": name, "summary": summary, "responses": responses}
    if fields:
        described["requestBody"] = {
            "required": True,
            "content": {_JSON: {"schema": _object(fields)}},
        }
    return described


def _parameter(name: str, schema: Schema) -> list[Schema]:
    return [{"name": name, "in": "path", "required": True, "schema": schema}]


def _paths() -> dict[str, Schema]:
    bvn = _parameter("bvn", _text(BVN))
    usual = "400 401 402 403"
    filled: Schema = {"type": "string", "minLength": 1}
    image: Schema = {"type": "string", "format": "uri", "pattern": "^https?://"}
    account: dict[str, Schema] = {
        "account_number": _text("[0-9]{10}"),
        "bank_code": _text("[0-9]{3}"),
    }
    identity: Schema = {
        "type": "string",
        "minLength": 1,
        "description": f"one of: {', '.join(LISTED_SHARE)}; percent-encoded",
    }
    return {
        "/v2/verification/bvn/{bvn}/accounts": {
            "parameters": bvn,
            "post": _operation(
                *("bvn_start", "a one-time password is on its way", "BvnStart"),
                f"{usual} 404 500 504",
                {"contact": filled},
            ),
            "put": _operation(
                *("bvn_finish", "the BVN record", "BvnFinish"), f"{usual} 500 504", {"otp": filled}
            ),
        },
        "/v2/verification/bvn/{bvn}/selfies": {
            "parameters": bvn,
            "post": _operation(
                *("selfie", "how alike photograph and record are", "Selfie"),
                f"{usual} 404 500 504",
                {"image": image},
            ),
        },
        "/v2/verification/bankaccount/bvn": {
            "post": _operation(
                *("bank_account", "who holds the account", "BankAccount"),
                f"{usual} 500 504",
                account,
            ),
        },
        "/v2/verification/karma/{identity}": {
            "parameters": _parameter("identity", identity),
            "get": _operation("karma", "the entry on the blacklist", "Karma", f"{usual} 404 500"),
        },
        "/v2/verification/ecosystem/{bvn}": {
            "parameters": bvn,
            "get": _operation("ecosystem", "the record", "Ecosystem", f"{usual} 404 500"),
        },
    }


def document() -> dict[str, object]:
    """Return the OpenAPI document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Validation, as the sandbox simulates it",
            "version": "2",
            "description": "Area B with the default manners of the sandbox.",
        },
        "security": [{"key": []}],
        "paths": _paths(),
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "schemas": _schemas(),
        },
    }
