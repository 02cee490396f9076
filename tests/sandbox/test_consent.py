"""Consent to data: what the screen shows and refuses, what codes and tokens open, when they end."""

from __future__ import annotations

import pytest

from tests.sandbox.in_process import Here, brought_back

ELSEWHERE = "http://127.0.0.1:8123/elsewhere"


@pytest.mark.parametrize(
    "changes",
    [
        {"response_type": "token"},
        {"client_id": "somebody-else"},
        {"client_id": None},
        {"redirect_uri": None},
        {"redirect_uri": "https://evil.example/callback"},
        {"redirect_uri": "http://127.0.0.1@evil.example/callback"},
        {"redirect_uri": "javascript:alert(1)"},
        {"scope": None},
        {"scope": "transaction:list <script>alert(1)</script>"},
    ],
)
async def test_a_wrong_request_ends_on_a_page(changes: dict[str, str | None]) -> None:
    """Neither showing nor answering a wrong request sends the customer anywhere."""
    here = Here()
    for answer in (await here.screen(**changes), await here.choose("ada", "allow", **changes)):
        assert answer.status_code == 400
        assert "location" not in answer.headers
        assert "<script" not in answer.text
    assert not len(here.sandbox.grants)
    assert here.sandbox.ledger.count == 0


async def test_registered_addresses_must_be_exact() -> None:
    """Once addresses are registered no other is taken, not even one on loopback."""
    here, registered = Here(), "https://lender.example/back?from=bank"
    here.sandbox.redirect_uris = (registered,)
    assert (await here.screen()).status_code == 400
    answer = await here.choose("ada", redirect_uri=registered)
    assert set(brought_back(answer, registered)) == {"from", "code", "state"}


async def test_secrets_are_good_for_their_own_purpose_and_address_alone() -> None:
    """Another address, another kind of secret or another grant type is a 400."""
    here = Here()
    code = await here.consent("ada")
    assert (await here.exchange(code, ELSEWHERE)).status_code == 400
    assert (await here.auth(code, "password")).status_code == 400
    assert (await here.auth(code, 7)).status_code == 400
    tokens = (await here.exchange(code)).json()
    for answer in (
        await here.exchange(tokens["access_token"]),
        await here.exchange(tokens["refresh_token"]),
        await here.refresh(tokens["access_token"]),
        await here.refresh(tokens["refresh_token"], ELSEWHERE),
    ):
        assert (answer.status_code, answer.json()["status"]) == (400, "error")
    assert (await here.refresh(tokens["refresh_token"])).status_code == 200


async def test_codes_and_access_tokens_expire() -> None:
    """A code is good for a minute, a token for five, by the sandbox's clock."""
    here = Here()
    early, late = await here.consent("ada"), await here.consent("ada")
    await here.control("clock", advance_s=59)
    token = (await here.exchange(early)).json()["access_token"]
    await here.control("clock", advance_s=1)
    assert (await here.exchange(late)).json()["message"] == "Authorization code has expired"
    assert (await here.data(token)).status_code == 200
    await here.control("clock", advance_s=299)
    for given, word in ((token, "expired_token"), ("x" * 254, "unknown_token"), ("", "no_token")):
        answer = await here.data(given)
        text = "You are not authorized to access this service."
        assert (answer.status_code, answer.json()["message"]) == (403, text)
        assert here.sandbox.ledger.entries[-1].outcome == word


async def test_a_replayed_code_takes_its_tokens_back() -> None:
    """The second use of a code is refused and ends what came of the first; others go on."""
    here = Here()
    code, other = await here.consent("ada"), await here.tokens("ada")
    tokens = (await here.exchange(code)).json()
    assert (await here.exchange(code)).status_code == 400
    assert (await here.data(tokens["access_token"])).status_code == 403
    assert (await here.refresh(tokens["refresh_token"])).status_code == 400
    assert (await here.data(other["access_token"])).status_code == 200
    assert (await here.counts("ada"))["replays"] == 1
