"""Data of customers who consented: scopes, lists, own changes, and how lists differ by day."""

from __future__ import annotations

from typing import Any

import pytest

from nightscreen.sandbox.grants import SCOPES
from nightscreen.sandbox.people import Record, person_of_bvn
from nightscreen.sandbox.transactions import (
    bank_accounts_of,
    malformed,
    transactions_of,
)
from nightscreen.sandbox.wire import dumps
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


async def test_list_is_the_customers_transactions_newest_first() -> None:
    """The list has an envelope without a message, costs nothing, and is what the people say."""
    here = Here()
    body = (await here.data((await here.tokens("ada"))["access_token"])).json()
    body.pop("deprecation", None)
    assert set(body) == {"status", "data", "meta"}
    assert body["meta"] == {"cost": 0, "balance": 1_000_000}
    assert body["data"] == transactions_of("ada")
    dates = [one["transaction_date"] for one in body["data"]]
    assert dates == sorted(dates, reverse=True)


async def test_a_change_is_answered_and_nothing_of_it_is_kept() -> None:
    """A note, a name and another account show in the answer, with their moment and owner."""
    here = Here()
    token = (await here.tokens("ada"))["access_token"]
    await here.control("world", day=2)
    own, listed = bank_accounts_of("ada", 2), transactions_of("ada", 2)
    for path, change, name in (
        (f"/transactions/{listed[3]['id']}", "for the shop", "note"),
        (f"/bank-accounts/{own[0]['id']}", "SHOP", "account_name"),
    ):
        changed = (await here.data(token, path, "PATCH", **{name: change})).json()["data"]
        assert (changed[name], changed["modified_on"][:10]) == (change, "2026-07-03")
    body = {"bank_code": CODE, "account_number": NUMBER}
    added = (await here.data(token, "/bank-accounts", "POST", **body)).json()["data"]
    assert (added["account_number"], added["bank"]["short_code"]) == (NUMBER, CODE)
    assert (await here.data(token, "/bank-accounts")).json()["data"] == own
    assert (await here.data(token)).json()["data"] == listed


def test_magic_lists_are_as_their_rows_say() -> None:
    """Each oddity of a list is there, beside records that can be read."""

    def true(word: str, day: int = 0) -> list[Record]:
        return transactions_of(f"{word}@magic.example", day)

    def shown(word: str, day: int = 0) -> Any:  # noqa: ANN401 - whatever the service sent
        return malformed(f"{word}@magic.example", day, true(word, day))

    odd = [one for one in shown("malformed-record") if one not in true("malformed-record")]
    assert [type(one) for one in odd] == [str, dict, dict]
    assert len(true("ten-thousand")) > 9900
    assert shown("no-transactions") == shown("no-transactions", 9) == []
    assert shown("short-answer", 1) == true("short-answer", 1)[:3]
    assert (shown("empty-answer", 1), shown("null-answer", 1)) == ([], None)
    assert shown("empty-answer", 2) == true("empty-answer", 2)
    assert all("id" not in one for one in shown("no-ids"))
    twins = [dumps(one) for one in shown("twins")]
    assert twins[-1] == twins[-2]  # beside what the person's life has twice by itself
    ids = [one["id"] for one in shown("repeats")]
    assert len(ids) - len(set(ids)) == 2
    assert shown("shuffled") != true("shuffled")
    assert all(one in true("shuffled") for one in shown("shuffled"))
    assert not any(isinstance(one["amount"], str) for one in shown("number-amounts"))
    assert shown("list-elsewhere")["transactions"] == true("list-elsewhere")
    assert all("value" in one and "amount" not in one for one in shown("renamed-fields"))
    assert all("category" in one for one in shown("extra-fields"))
