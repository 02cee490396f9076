"""Data of customers who consented: scopes, envelopes, own changes, and the common manners."""

from __future__ import annotations

from typing import Any

import pytest

from nightscreen.sandbox import aggregator, test_identifiers
from nightscreen.sandbox.behaviour_flags import AGGREGATOR
from nightscreen.sandbox.grants import SCOPES
from nightscreen.sandbox.ledger import PRICES
from nightscreen.sandbox.people import person_of_bvn
from nightscreen.sandbox.transactions import (
    MALFORMED_IDS,
    SHORT,
    bank_accounts_of,
    listed_of,
    transactions_of,
)
from nightscreen.sandbox.wire import dumps
from tests.sandbox.consented import Journey

CALLS: dict[str, tuple[str, str, dict[str, object]]] = {
    "transaction:list": ("GET", "/transactions", {}),
    "transaction:view": ("GET", "/transactions/{transaction}", {}),
    "transaction:update": ("PATCH", "/transactions/{transaction}", {"note": "rent"}),
    "bank_account:list": ("GET", "/bank-accounts", {}),
    "bank_account:view": ("GET", "/bank-accounts/{account}", {}),
    "bank_account:add": ("POST", "/bank-accounts", {}),
    "bank_account:update": ("PATCH", "/bank-accounts/{account}", {"account_name": "SHOP"}),
    "bank_account:sync": ("POST", "/bank-accounts/sync", {}),
    "profile:view": ("GET", "/profile", {}),
    "bank_account:delete": ("DELETE", "/bank-accounts/{account}", {}),
}


@pytest.fixture
def journey() -> Journey:
    """A client of a fresh sandbox."""
    return Journey()


def call_for(scope: str, customer: str) -> tuple[str, str, dict[str, object]]:
    """Return method, path and body of the call that a scope allows."""
    method, path, body = CALLS[scope]
    account = str(bank_accounts_of(customer)[0]["id"])
    transaction = str(transactions_of(customer)[0]["id"])
    if scope == "bank_account:add":
        code, number = person_of_bvn("22123456789").account
        body = {"bank_code": code, "account_number": number}
    if scope == "bank_account:sync":
        body = {"account_id": account}
    return method, path.format(transaction=transaction, account=account), body


async def ask(journey: Journey, token: str, scope: str, customer: str) -> Any:  # noqa: ANN401 - JSON
    """Make the call of a scope; returns status and body."""
    method, path, body = call_for(scope, customer)
    answer = await journey.data(token, path, method, **body)
    return answer.status_code, answer.json()


@pytest.mark.parametrize("scope", SCOPES)
async def test_each_scope_opens_its_operation_and_no_other(journey: Journey, scope: str) -> None:
    """With one scope granted exactly one of the ten operations answers."""
    token = (await journey.tokens("ada", scope))["access_token"]
    others = [one for one in CALLS if one != scope]
    for other in others:
        status, body = await ask(journey, token, other, "ada")
        assert (status, body["status"]) == (403, "error")
        assert other in body["message"]
    assert (await ask(journey, token, scope, "ada"))[0] == 200
    assert (await journey.counts("ada"))["refused_scopes"] == len(others)


async def test_list_is_the_customers_transactions_newest_first(journey: Journey) -> None:
    """The list has an envelope without a message, costs nothing, and is what the people say."""
    token = (await journey.tokens("ada"))["access_token"]
    body = (await journey.data(token)).json()
    body.pop("deprecation", None)
    assert set(body) == {"status", "data", "meta"}
    assert body["meta"] == {"cost": 0, "balance": 1_000_000}
    assert body["data"] == transactions_of("ada")
    dates = [one["transaction_date"] for one in body["data"]]
    assert dates == sorted(dates, reverse=True)


async def test_a_note_stays_and_shows_as_a_change(journey: Journey) -> None:
    """A changed note is in the answer, in the view and in the list, with its moment."""
    token = (await journey.tokens("ada"))["access_token"]
    await journey.control("world", day=2)
    one = str(transactions_of("ada", 2)[3]["id"])
    answer = await journey.data(token, f"/transactions/{one}", "PATCH", note="for the shop")
    changed = answer.json()["data"]
    assert (changed["note"], changed["modified_on"][:10]) == ("for the shop", "2026-07-03")
    assert (await journey.data(token, f"/transactions/{one}")).json()["data"] == changed
    assert changed in (await journey.data(token)).json()["data"]


async def test_bank_accounts_can_be_added_changed_and_removed(journey: Journey) -> None:
    """What a client does to the linked accounts shows in the list."""
    token = (await journey.tokens("ada"))["access_token"]
    code, number = person_of_bvn("22123456789").account
    own = bank_accounts_of("ada")
    body = {"bank_code": code, "account_number": number}
    added = (await journey.data(token, "/bank-accounts", "POST", **body)).json()["data"]
    assert (added["account_number"], added["bank"]["short_code"]) == (number, code)
    again = await journey.data(token, "/bank-accounts", "POST", **body)
    assert again.status_code == 400
    path = f"/bank-accounts/{added['id']}"
    await journey.data(token, path, "PATCH", account_name="SHOP")
    assert (await journey.data(token, path)).json()["data"]["account_name"] == "SHOP"
    assert len((await journey.data(token, "/bank-accounts")).json()["data"]) == len(own) + 1
    assert (await journey.data(token, path, "DELETE")).status_code == 200
    assert (await journey.data(token, "/bank-accounts")).json()["data"] == own
    assert (await journey.data(token, path)).status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/transactions/unknown", 404),
        ("PATCH", "/transactions/unknown", 400),
        ("DELETE", "/bank-accounts/unknown", 404),
        ("POST", "/bank-accounts", 400),
        ("POST", "/bank-accounts/sync", 400),
        ("PUT", "/transactions", 404),
        ("GET", "/balances", 404),
    ],
)
async def test_unknown_ids_fields_and_routes(
    journey: Journey, method: str, path: str, status: int
) -> None:
    """Unknown ids and routes are 404 as JSON, missing fields 400."""
    token = (await journey.tokens("ada"))["access_token"]
    answer = await journey.data(token, path, method)
    assert (answer.status_code, answer.json()["status"]) == (status, "error")


async def test_another_customers_records_are_out_of_reach(journey: Journey) -> None:
    """One customer's token does not open another's transaction or account."""
    token = (await journey.tokens("ada"))["access_token"]
    for scope in ("transaction:view", "bank_account:view", "bank_account:delete"):
        assert (await ask(journey, token, scope, "bola"))[0] == 404


async def test_ledger_names_the_customer(journey: Journey) -> None:
    """Token and data calls are in the ledger under the customer, with an outcome in one word."""
    tokens = await journey.tokens("ada", "transaction:list")
    await journey.data(tokens["access_token"])
    await journey.data(tokens["access_token"], "/profile")
    await journey.refresh(tokens["refresh_token"])
    shown = [(one.operation, one.identity, one.outcome) for one in journey.sandbox.ledger.entries]
    assert shown == [
        ("aggregator_auth", "ada", "exchanged"),
        ("aggregator_transactions", "ada", "pulled"),
        ("aggregator_profile_view", "ada", "scope_missing"),
        ("aggregator_auth", "ada", "refreshed"),
    ]


async def test_prices_faults_and_rights_hold_here_too(journey: Journey) -> None:
    """A price is charged, a wallet may be too low, a right may be missing, a fault may come."""
    token = (await journey.tokens("ada"))["access_token"]
    await journey.control("prices", aggregator_transactions="2.5")
    assert (await journey.data(token)).json()["meta"] == {"cost": 2.5, "balance": 999_997.5}
    await journey.control(
        "faults", operation="aggregator_transactions", rates={"http_429": 1}, retry_after_s=7
    )
    answer = await journey.data(token)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
    await journey.control("faults", operation="all", rates={})
    await journey.control("wallet", balance=1)
    assert (await journey.data(token)).status_code == 402
    await journey.control("faults", operation="aggregator_profile_view", rates={"denied": 1})
    assert (await journey.data(token, "/profile")).status_code == 403
    await journey.control("mode", test_mode="mock-response")
    assert "mock-response" in (await journey.data(token, "/bank-accounts")).json()


def test_every_operation_has_a_name_and_a_price() -> None:
    """Names in the manners, the price list and the routes agree."""
    assert {one.name for one in aggregator.OPERATIONS} == set(AGGREGATOR)
    assert all(PRICES[name] == 0 for name in AGGREGATOR)


@pytest.mark.parametrize(
    "row", [one for one in test_identifiers.CUSTOMERS if one.records], ids=lambda row: row.word
)
async def test_magic_lists_are_what_the_people_say(
    journey: Journey, row: test_identifiers.MagicCustomer
) -> None:
    """Whatever a magic customer's list looks like, a test can know it beforehand."""
    token = (await journey.tokens(row.customer))["access_token"]
    for day in (0, 1):
        await journey.control("world", day=day)
        answer = (await journey.data(token)).content
        assert f'"data":{dumps(listed_of(row.customer, day))}'.encode() in answer


async def test_magic_lists_are_as_their_rows_say(journey: Journey) -> None:
    """Each oddity of a list is there, beside records that can be read."""

    def shown(word: str, day: int = 0) -> Any:  # noqa: ANN401 - whatever the service sent
        return listed_of(f"{word}@magic.example", day)

    def true(word: str, day: int = 0) -> list[dict[str, object]]:
        return transactions_of(f"{word}@magic.example", day)

    malformed = shown("malformed-record")
    odd = [one for one in malformed if one not in true("malformed-record")]
    assert [type(one) for one in odd] == [str, dict, dict]
    assert tuple(one["id"] for one in odd[1:]) == MALFORMED_IDS
    assert len(true("ten-thousand")) > 9900
    assert shown("no-transactions") == shown("no-transactions", 9) == []
    assert shown("short-answer", 1) == true("short-answer", 1)[:SHORT]
    assert shown("short-answer", 2) == true("short-answer", 2)
    assert (shown("empty-answer", 1), shown("null-answer", 1)) == ([], None)
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


async def test_magic_scope_missing(journey: Journey) -> None:
    """One customer grants less than was asked for, and the answer says so."""
    tokens = await journey.tokens("scope-missing@magic.example", "transaction:list", "profile:view")
    assert tokens["scope"] == "profile:view"
    assert (await journey.data(tokens["access_token"])).status_code == 403
    assert (await journey.data(tokens["access_token"], "/profile")).status_code == 200


async def test_magic_faults_leave_the_exchange_alone(journey: Journey) -> None:
    """Fault rows spoil data calls, and their customers still get tokens."""
    await journey.control("manners", slow_s=0)
    tokens = await journey.tokens("http-502@magic.example")
    assert (await journey.data(tokens["access_token"])).status_code == 502
    tokens = await journey.tokens("slow@magic.example")
    assert (await journey.data(tokens["access_token"])).status_code == 200
    assert journey.sandbox.ledger.entries[-1].fault == "slow"
