"""Data of customers who consented: scopes, lists, own changes, and how lists differ by day."""

from __future__ import annotations

from typing import Any

import pytest

from nightscreen.sandbox.grants import SCOPES
from nightscreen.sandbox.people import person_of_bvn
from nightscreen.sandbox.transactions import (
    bank_accounts_of,
    transactions_of,
)
from tests.sandbox.in_process import Here

CODE, NUMBER = person_of_bvn("22123456789").account
CALLS: dict[str, tuple[str, str, dict[str, object]]] = {
    "transaction:list": ("GET", "/transactions", {}),
    "transaction:view": ("GET", "/transactions/{transaction}", {}),
    "transaction:update": ("PATCH", "/transactions/{transaction}", {"note": "rent"}),
    "bank_account:list": ("GET", "/bank-accounts", {}),
    "bank_account:view": ("GET", "/bank-accounts/{account}", {}),
    "bank_account:add": ("POST", "/bank-accounts", {"bank_code": CODE, "account_number": NUMBER}),
    "bank_account:update": ("PATCH", "/bank-accounts/{account}", {"account_name": "SHOP"}),
    "bank_account:sync": ("POST", "/bank-accounts/sync", {"account_id": "{account}"}),
    "profile:view": ("GET", "/profile", {}),
    "bank_account:delete": ("DELETE", "/bank-accounts/{account}", {}),
}


async def ask(here: Here, token: str, scope: str, customer: str) -> tuple[int, Any]:
    """Make the call of a scope about somebody's records; returns status and body."""
    method, path, body = CALLS[scope]
    ids = {
        "account": bank_accounts_of(customer)[0]["id"],
        "transaction": transactions_of(customer)[0]["id"],
    }
    sent = {name: str(value).format(**ids) for name, value in body.items()}
    answer = await here.data(token, path.format(**ids), method, **sent)
    return answer.status_code, answer.json()


@pytest.mark.parametrize("scope", SCOPES)
async def test_each_scope_opens_its_operation_and_no_other(scope: str) -> None:
    """With one scope granted exactly one of the ten operations answers, for its customer alone."""
    here = Here()
    token = (await here.tokens("ada", scope))["access_token"]
    others = [one for one in CALLS if one != scope]
    for other in others:
        status, body = await ask(here, token, other, "ada")
        assert (status, body["status"]) == (403, "error")
        assert other in body["message"]
    if "{account}" in str(CALLS[scope]) or "{transaction}" in str(CALLS[scope]):
        assert (await ask(here, token, scope, "bola"))[0] == 404
    assert (await ask(here, token, scope, "ada"))[0] == 200
    assert (await here.counts("ada"))["refused_scopes"] == len(others)
    assert here.sandbox.ledger.entries[-1].identity == "ada"
