"""A sandbox in the test's own process, with a client and a browser: no socket, no waiting.

Faults that cut sockets need a sandbox process instead.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx

from nightscreen.sandbox.app import application
from nightscreen.sandbox.faults import Profile
from nightscreen.sandbox.grants import DEFAULT_CLIENT_ID, SCOPES
from nightscreen.sandbox.people import person_of_bvn
from nightscreen.sandbox.state import DEFAULT_KEY, Sandbox

ORIGIN = "http://127.0.0.1:8800"
CALLBACK = "http://127.0.0.1:8123/callback"
VALIDATION = "/v2/verification"
DATA = "/v2/aggregator"


def quick_sandbox(**opening: Any) -> Sandbox:  # noqa: ANN401 - as Sandbox has them
    """Return a sandbox that answers at once."""
    sandbox = Sandbox(**opening)
    sandbox.latency.default = Profile(kind="none")
    return sandbox


@dataclass
class Here:
    """One sandbox, a client with the right key, and a customer's browser."""

    sandbox: Sandbox = field(default_factory=quick_sandbox)

    def __post_init__(self) -> None:
        transport = httpx.ASGITransport(application(self.sandbox))
        key = {"Authorization": f"Bearer {DEFAULT_KEY}"}
        self.client = httpx.AsyncClient(transport=transport, base_url=ORIGIN, headers=key)
        self.browser = httpx.AsyncClient(transport=transport, base_url=ORIGIN)

    async def control(self, name: str, body: object = None, **fields: object) -> dict[str, Any]:
        """Steer the sandbox, or look into it where no body is given."""
        path, body = f"/_sandbox/{name}", fields or body
        answer = await (
            self.browser.get(path) if body is None else self.browser.post(path, json=body)
        )
        shown: dict[str, Any] = answer.json()
        assert answer.status_code == 200, shown
        return shown

    async def refusal(self, name: str, body: object) -> str:
        """Return why a setting is refused; it changes nothing."""
        before = self.sandbox.as_json()
        answer = await self.browser.post(f"/_sandbox/{name}", json=body)
        assert answer.status_code == 400
        assert self.sandbox.as_json() == before
        return str(answer.json()["error"])

    async def karma(self, identity: str) -> httpx.Response:
        """Look an identity up, percent-encoded where it needs to be."""
        return await self.client.get(f"{VALIDATION}/karma/{identity}")

    async def start(self, bvn: str, contact: str = "") -> httpx.Response:
        """Start BVN consent at the registered phone, or at another contact."""
        body = {"contact": contact or person_of_bvn(bvn).contacts[0]}
        return await self.client.post(f"{VALIDATION}/bvn/{bvn}/accounts", json=body)

    async def finish(self, bvn: str, otp: object) -> httpx.Response:
        return await self.client.put(f"{VALIDATION}/bvn/{bvn}/accounts", json={"otp": otp})

    async def screen(self, **changes: str | None) -> httpx.Response:
        """Open the consent screen; a change to None leaves a parameter out."""
        return await self.browser.get("/data-share", params=wish(**changes))

    async def choose(
        self, customer: str, decision: str = "allow", **changes: str | None
    ) -> httpx.Response:
        """Answer the consent screen as a customer does."""
        form = {"customer": customer, "decision": decision}
        return await self.browser.post("/data-share", params=wish(**changes), data=form)

    async def consent(self, customer: str, *scopes: str) -> str:
        """Allow what is asked for, and return the code."""
        scope = " ".join(scopes or SCOPES)
        return brought_back(await self.choose(customer, scope=scope))["code"]

    async def auth(
        self, secret: str, grant_type: object, redirect_uri: str = CALLBACK
    ) -> httpx.Response:
        """Call the token operation."""
        body = {"code": secret, "grant_type": grant_type, "redirect_uri": redirect_uri}
        return await self.client.post(f"{DATA}/auth", json=body)

    async def exchange(self, code: str, redirect_uri: str = CALLBACK) -> httpx.Response:
        return await self.auth(code, "authorization_code", redirect_uri)

    async def refresh(self, token: str, redirect_uri: str = CALLBACK) -> httpx.Response:
        """Ask for a new access token."""
        return await self.auth(token, "refresh_token", redirect_uri)

    async def tokens(self, customer: str, *scopes: str) -> dict[str, str]:
        """Go the whole way from screen to tokens."""
        answer = await self.exchange(await self.consent(customer, *scopes))
        assert answer.status_code == 200
        tokens: dict[str, str] = answer.json()
        return tokens

    async def data(
        self, token: str, path: str = "/transactions", method: str = "GET", **body: object
    ) -> httpx.Response:
        """Make a data call with an access token, and without the API key."""
        return await self.browser.request(
            method, DATA + path, headers={"x-access-token": token}, json=body or None
        )

    async def counts(self, customer: str) -> dict[str, int]:
        shown: dict[str, int] = (await self.control("grants"))["counts"].get(customer, {})
        return shown


def wish(**changes: str | None) -> dict[str, str]:
    """Return the parameters of an authorization request."""
    usual: dict[str, str | None] = {
        "response_type": "code",
        "client_id": DEFAULT_CLIENT_ID,
        "redirect_uri": CALLBACK,
        "scope": "transaction:list",
        "state": "s-1",
        **changes,
    }
    return {name: value for name, value in usual.items() if value is not None}


def brought_back(answer: httpx.Response, to: str = CALLBACK) -> dict[str, str]:
    """Return what a redirect to the client's address carries."""
    assert answer.status_code == 303, answer.text
    location = answer.headers["location"]
    assert location.startswith(to)
    return dict(parse_qsl(urlsplit(location).query, keep_blank_values=True))
