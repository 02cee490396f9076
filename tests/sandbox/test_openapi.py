"""The OpenAPI document: complete, and true of what the sandbox answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from nightscreen.sandbox import aggregator, loans, test_identifiers, validation
from nightscreen.sandbox.openapi import document
from nightscreen.sandbox.people import otp_of

if TYPE_CHECKING:
    from tests.sandbox.conftest import Answer, Caller

ROUTES = {
    **validation.ROUTES,
    **aggregator.AUTH_ROUTES,
    **aggregator.DATA_ROUTES,
    **loans.ROUTES,
}
DOCUMENT: dict[str, Any] = document()
ROWS = [test_identifiers.by_word(word) for word in ("listed", "clear", "missing-account", "nobody")]


def described(name: str) -> dict[str, Any]:
    """Find an operation by its name."""
    found: dict[str, Any] = next(
        operation
        for path in DOCUMENT["paths"].values()
        for method, operation in path.items()
        if method != "parameters" and operation["operationId"] == name
    )
    return found


def check(answer: Answer, name: str) -> None:
    """Compare an answer with what the document says of its status."""
    responses = described(name)["responses"]
    assert str(answer.status) in responses
    content = responses[str(answer.status)]["content"]
    if "application/json" in content:
        schema = content["application/json"]["schema"]
        jsonschema.validate(answer.json, {**schema, "components": DOCUMENT["components"]})


def test_every_route_and_method_is_described() -> None:
    """The document has the same paths, methods and names as the routes, and the screen."""
    expected = {
        (path.replace(":path", ""), method.lower(), operation.name)
        for path, operations in ROUTES.items()
        for method, operation in operations.items()
    } | {("/data-share", "get", "consent_screen")}
    shown = {
        (path, method, operation["operationId"])
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
        if method != "parameters"
    }
    assert shown == expected


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.word)
def test_answers_are_as_described(caller: Caller, row: test_identifiers.MagicPerson) -> None:
    """Hits and misses of every operation have the described status and shape."""
    check(caller.karma(row.bvn), "karma")
    check(caller.ecosystem(row.bvn), "ecosystem")
    check(caller.bank_account("058", row.account_number), "bank_account")
    check(caller.selfie(row.bvn, "https://x.example/a.jpg"), "selfie")
    check(caller.bvn_start(row.bvn), "bvn_start")
    check(caller.bvn_finish(row.bvn, otp_of(row.bvn)), "bvn_finish")


def test_refusals_are_as_described(caller: Caller) -> None:
    """Bad input, an empty wallet and a missing price have the described shape."""
    check(caller.karma("x"), "karma")
    check(caller.bank_account("58", "1"), "bank_account")
    caller.sandbox.post("/_sandbox/manners", {"unpriced_operations": ["selfie"]})
    check(caller.selfie(ROWS[0].bvn, "https://x.example/a.jpg"), "selfie")
    caller.sandbox.post("/_sandbox/wallet", {"balance": 0})
    check(caller.ecosystem(ROWS[0].bvn), "ecosystem")
