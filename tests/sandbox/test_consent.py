"""Consent to data: what the screen shows and refuses, what codes and tokens open, when they end."""

from __future__ import annotations

import asyncio
from html.parser import HTMLParser

import httpx
import pytest

from tests.sandbox.in_process import Here, brought_back

ELSEWHERE = "http://127.0.0.1:8123/elsewhere"


class Page(HTMLParser):
    """Collects the elements of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note one element."""
        self.elements.append((tag, dict(attrs)))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of all elements of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]


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


@pytest.mark.parametrize("state", ["", "a b&c=d%20é+\n\"'<&amp;", "x" * 3000, None])
async def test_state_comes_back_unchanged(state: str | None) -> None:
    """With a code and with a refusal, also where the form's action is followed as it is shown."""
    here = Here()
    for decision in ("allow", "deny"):
        told = brought_back(await here.choose("ada", decision, state=state))
        assert told.get("state") == state
        assert told.get("error") == (None if decision == "allow" else "access_denied")
    assert await here.counts("ada") == {"allowed": 1, "codes": 1, "denied": 1}
    form = Page((await here.screen(state=state)).text).all("form")[0]
    action = httpx.URL("http://127.0.0.1:8800/data-share").join(form["action"] or "")
    answer = await here.browser.post(action, data={"customer": "ada", "decision": "allow"})
    assert brought_back(answer).get("state") == state


async def test_refresh_gives_an_access_token_and_no_refresh_token() -> None:
    """Each refresh gives another token; refreshes of a live one are counted."""
    here = Here()
    tokens = await here.tokens("ada")
    await here.control("tokens", action="expire", customer="ada")
    answers = await asyncio.gather(*(here.refresh(tokens["refresh_token"]) for _ in range(2)))
    assert not any("refresh_token" in answer.json() for answer in answers)
    issued = {answer.json()["access_token"] for answer in answers}
    assert len(issued | {tokens["access_token"]}) == 3
    for token in issued:
        assert (await here.data(token)).status_code == 200
    counts = await here.counts("ada")
    assert (counts["refreshes"], counts["early_refreshes"]) == (2, 1)


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


async def test_grants_can_be_revoked_and_forgotten() -> None:
    """Of one customer or of all, with or without the access tokens; a reset forgets them."""
    here = Here()
    ada, bola = await here.tokens("ada"), await here.tokens("bola")
    assert await here.control("tokens", action="revoke", customer="ada") == {"revoked": 1}
    assert (await here.data(ada["access_token"])).status_code == 403
    refused = await here.refresh(ada["refresh_token"])
    assert refused.json()["message"] == "Refresh token has been revoked"
    await here.control("tokens", action="revoke_refresh")
    assert (await here.data(bola["access_token"])).status_code == 200
    assert (await here.refresh(bola["refresh_token"])).status_code == 400
    await here.control("reset", {})
    assert (await here.data(bola["access_token"])).status_code == 403
