"""Codes and tokens: what they open, when they end, and how often they were refreshed."""

from __future__ import annotations

import asyncio
from http.client import HTTPException
from typing import TYPE_CHECKING

import pytest

from nightscreen.sandbox.grants import Client
from tests.sandbox.consented import CALLBACK, KEY, Journey

if TYPE_CHECKING:
    from tests.sandbox.conftest import Caller

ELSEWHERE = "http://127.0.0.1:8123/elsewhere"
UNAUTHORISED = "You are not authorized to access this service."


@pytest.fixture
def journey() -> Journey:
    """A client of a fresh sandbox."""
    return Journey()


async def test_refresh_gives_an_access_token_and_no_refresh_token(journey: Journey) -> None:
    """A refresh may be repeated; each gives another token, and none a new refresh token."""
    tokens = await journey.tokens("ada")
    answers = [(await journey.refresh(tokens["refresh_token"])).json() for _ in range(2)]
    assert all("refresh_token" not in answer for answer in answers)
    issued = {tokens["access_token"], *(answer["access_token"] for answer in answers)}
    assert len(issued) == 3
    for token in issued:
        assert (await journey.data(token)).status_code == 200


@pytest.mark.parametrize("grant_type", ["password", "", None, 7])
async def test_other_grant_types_are_refused(journey: Journey, grant_type: object) -> None:
    """Only the two ways of the specification are known."""
    code = await journey.consent("ada")
    answer = await journey.auth(code=code, grant_type=grant_type, redirect_uri=CALLBACK)
    assert answer.status_code == 400
    assert answer.json()["status"] == "error"


async def test_address_must_be_the_one_of_the_request(journey: Journey) -> None:
    """Exchange and refresh with another address are refused; the right one still works."""
    code = await journey.consent("ada")
    assert (await journey.exchange(code, ELSEWHERE)).status_code == 400
    tokens = (await journey.exchange(code)).json()
    assert (await journey.refresh(tokens["refresh_token"], ELSEWHERE)).status_code == 400
    assert (await journey.refresh(tokens["refresh_token"])).status_code == 200


async def test_codes_expire(journey: Journey) -> None:
    """A code is good for a minute, by the sandbox's clock."""
    early, late = await journey.consent("ada"), await journey.consent("ada")
    await journey.control("clock", advance_s=59)
    assert (await journey.exchange(early)).status_code == 200
    await journey.control("clock", advance_s=1)
    answer = await journey.exchange(late)
    assert (answer.status_code, answer.json()["message"]) == (
        400,
        "Authorization code has expired",
    )


async def test_a_replayed_code_takes_its_tokens_back(journey: Journey) -> None:
    """The second use of a code is refused and ends what came of the first; others go on."""
    code = await journey.consent("ada")
    other = await journey.tokens("ada")
    tokens = (await journey.exchange(code)).json()
    assert (await journey.data(tokens["access_token"])).status_code == 200
    assert (await journey.exchange(code)).status_code == 400
    assert (await journey.data(tokens["access_token"])).status_code == 403
    assert (await journey.refresh(tokens["refresh_token"])).status_code == 400
    assert (await journey.data(other["access_token"])).status_code == 200
    assert (await journey.counts("ada"))["replays"] == 1


async def test_a_code_of_another_client_is_unknown(journey: Journey) -> None:
    """A code issued under another client id is not this key's to exchange."""
    code = await journey.consent("ada")
    journey.sandbox.client = Client("other")
    assert (await journey.exchange(code)).status_code == 400


async def test_access_token_is_no_code_and_no_refresh_token(journey: Journey) -> None:
    """Each secret is good for its own purpose only."""
    tokens = await journey.tokens("ada")
    assert (await journey.exchange(tokens["access_token"])).status_code == 400
    assert (await journey.exchange(tokens["refresh_token"])).status_code == 400
    assert (await journey.refresh(tokens["access_token"])).status_code == 400
    assert (await journey.data(tokens["refresh_token"])).status_code == 403


async def test_missing_unknown_and_expired_tokens_are_told_alike(journey: Journey) -> None:
    """All three are 403 with the same text."""
    tokens = await journey.tokens("ada")
    await journey.control("clock", advance_s=300)
    bare = await journey.http.get("/v2/aggregator/transactions", headers=KEY)
    answers = [bare, await journey.data("x" * 254), await journey.data(tokens["access_token"])]
    for answer in answers:
        assert answer.status_code == 403
        assert answer.json() == {"status": "error", "message": UNAUTHORISED}
    outcomes = [one.outcome for one in list(journey.sandbox.ledger.entries)[-3:]]
    assert outcomes == ["no_token", "unknown_token", "expired_token"]


async def test_all_access_tokens_can_expire_at_once(journey: Journey) -> None:
    """After that each customer needs one refresh, and has it."""
    held = {name: await journey.tokens(name) for name in ("ada", "bola")}
    assert await journey.control("tokens", action="expire") == {"expired": 2}
    for tokens in held.values():
        assert (await journey.data(tokens["access_token"])).status_code == 403
        fresh = (await journey.refresh(tokens["refresh_token"])).json()
        assert (await journey.data(fresh["access_token"])).status_code == 200
    counts = await journey.counts("ada")
    assert (counts["refreshes"], counts.get("early_refreshes", 0)) == (1, 0)


async def test_early_refreshes_are_counted(journey: Journey) -> None:
    """Two refreshes after one expiry are one too many, and show."""
    tokens = await journey.tokens("ada")
    await journey.control("tokens", action="expire", customer="ada")
    await asyncio.gather(*(journey.refresh(tokens["refresh_token"]) for _ in range(2)))
    counts = await journey.counts("ada")
    assert (counts["refreshes"], counts["early_refreshes"]) == (2, 1)


async def test_one_customer_can_be_revoked(journey: Journey) -> None:
    """Revoking ends all of one customer's grants, and nobody else's."""
    first, second = await journey.tokens("ada"), await journey.tokens("bola")
    assert await journey.control("tokens", action="revoke", customer="ada") == {"revoked": 1}
    assert (await journey.data(first["access_token"])).status_code == 403
    refused = await journey.refresh(first["refresh_token"])
    assert (refused.status_code, refused.json()["message"]) == (
        400,
        "Refresh token has been revoked",
    )
    assert (await journey.data(second["access_token"])).status_code == 200
    await journey.control("tokens", action="revoke_refresh")
    assert (await journey.data(second["access_token"])).status_code == 200
    assert (await journey.refresh(second["refresh_token"])).status_code == 400


async def test_grants_can_be_made_without_a_browser(journey: Journey) -> None:
    """The first exchange binds such a grant to its address, unless one was given."""
    made = await journey.control("grants", customer="ada", scopes="profile:view")
    tokens = (await journey.exchange(made["code"], ELSEWHERE)).json()
    assert tokens["scope"] == "profile:view"
    assert (await journey.refresh(tokens["refresh_token"], CALLBACK)).status_code == 400
    assert (await journey.refresh(tokens["refresh_token"], ELSEWHERE)).status_code == 200
    made = await journey.control("grants", customer="ada", redirect_uri=CALLBACK)
    assert (await journey.exchange(made["code"], ELSEWHERE)).status_code == 400


@pytest.mark.parametrize(
    ("address", "body"),
    [
        ("grants", {}),
        ("grants", {"customer": " "}),
        ("grants", {"customer": "ada", "scopes": []}),
        ("grants", {"customer": "ada", "scopes": ["everything"]}),
        ("grants", {"customer": "ada", "redirect_uri": "callback"}),
        ("grants", {"customer": "ada", "scope": "profile:view"}),
        ("tokens", {"action": "burn"}),
        ("tokens", {}),
        ("clock", {"advance_s": -1}),
    ],
)
async def test_control_requests_are_checked(
    journey: Journey, address: str, body: dict[str, object]
) -> None:
    """What is not understood is a 400 with a reason and changes nothing."""
    before = journey.sandbox.as_json()
    answer = await journey.http.post(f"/_sandbox/{address}", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]
    assert journey.sandbox.as_json() == before


async def test_views_show_counts_but_no_secret_and_secrets_show_all(journey: Journey) -> None:
    """Grants and ledger can be shown to anybody; the secrets have a view of their own."""
    code = await journey.consent("ada")
    tokens = (await journey.exchange(code)).json()
    await journey.data(tokens["access_token"])
    secrets = (await journey.http.get("/_sandbox/secrets")).json()
    assert secrets == {
        "codes": [code],
        "access_tokens": [tokens["access_token"]],
        "refresh_tokens": [tokens["refresh_token"]],
    }
    for address in ("grants", "ledger", "state"):
        shown = (await journey.http.get(f"/_sandbox/{address}")).text
        assert not any(one in shown for group in secrets.values() for one in group)


async def test_reset_forgets_grants_client_and_clock(journey: Journey) -> None:
    """After a reset no token opens anything and the first client is registered again."""
    tokens = await journey.tokens("ada")
    journey.sandbox.client = Client("other")
    await journey.control("reset")
    assert (await journey.data(tokens["access_token"])).status_code == 403
    assert (await journey.refresh(tokens["refresh_token"])).status_code == 400
    assert (await journey.screen()).status_code == 200


async def test_magic_codes_and_tokens(journey: Journey) -> None:
    """Each magic customer of codes and tokens does what its row says."""
    for word in ("code-used", "code-expired"):
        answer = await journey.exchange(await journey.consent(f"{word}@magic.example"))
        assert answer.status_code == 400
    tokens = await journey.tokens("refresh-revoked@magic.example")
    assert (await journey.data(tokens["access_token"])).status_code == 200
    assert (await journey.refresh(tokens["refresh_token"])).status_code == 400
    tokens = await journey.tokens("never-valid@magic.example")
    fresh = (await journey.refresh(tokens["refresh_token"])).json()
    for token in (tokens["access_token"], fresh["access_token"]):
        assert (await journey.data(token)).status_code == 403


async def test_magic_auth_fails_twice(journey: Journey) -> None:
    """The code survives two 503 answers and is good at the third attempt."""
    code = await journey.consent("auth-fails-twice@magic.example")
    assert [(await journey.exchange(code)).status_code for _ in range(3)] == [503, 503, 200]


def test_magic_exchange_lost(caller: Caller) -> None:
    """The answer of the first exchange is lost on the wire; the repeat is a replay."""
    code = caller.sandbox.grant("exchange-lost@magic.example")
    body = {"code": code, "grant_type": "authorization_code", "redirect_uri": CALLBACK}
    with pytest.raises((OSError, HTTPException)):
        caller.call("POST", "/v2/aggregator/auth", body)
    assert caller.call("POST", "/v2/aggregator/auth", body).status == 400
    counts = caller.sandbox.get("/_sandbox/grants")["totals"]
    assert (counts["exchanges"], counts["replays"]) == (1, 1)
    assert caller.sandbox.get("/_sandbox/grants")["grants"][0]["state"] == "revoked"
