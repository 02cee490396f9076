"""A customer's journey in a test: screen, exchange and data calls, in the same process.

No socket: requests reach the sandbox's application through httpx's own transport. Faults that cut
sockets need a sandbox process instead.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx

from nightscreen.sandbox.app import application
from nightscreen.sandbox.faults import NO_WAIT
from nightscreen.sandbox.grants import DEFAULT_CLIENT_ID, SCOPES
from nightscreen.sandbox.state import DEFAULT_KEY, Opening, Sandbox

CALLBACK = "http://127.0.0.1:8123/callback"
KEY = {"Authorization": f"Bearer {DEFAULT_KEY}"}
DATA = "/v2/aggregator"


def quick_sandbox() -> Sandbox:
    """Return a sandbox that answers at once."""
    sandbox = Sandbox(Opening())
    sandbox.latency.default = NO_WAIT
    return sandbox


@dataclass
class Journey:
    """One client of a sandbox in this process."""

    sandbox: Sandbox = field(default_factory=quick_sandbox)

    def __post_init__(self) -> None:
        transport = httpx.ASGITransport(application(self.sandbox))
        self.http = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")

    async def screen(self, **changes: str | None) -> httpx.Response:
        """Open the consent screen; a change to None leaves a parameter out."""
        return await self.http.get("/data-share", params=wish(**changes))

    async def choose(
        self, customer: str, decision: str = "allow", **changes: str | None
    ) -> httpx.Response:
        """Answer the consent screen as a customer does."""
        form = {"customer": customer, "decision": decision}
        return await self.http.post("/data-share", params=wish(**changes), data=form)

    async def consent(self, customer: str, *scopes: str) -> str:
        """Allow what is asked for, and return the code."""
        scope = " ".join(scopes or SCOPES)
        return brought_back(await self.choose(customer, scope=scope))["code"]

    async def auth(self, **body: object) -> httpx.Response:
        """Call the token operation."""
        return await self.http.post(f"{DATA}/auth", json=body, headers=KEY)

    async def exchange(self, code: str, redirect_uri: str = CALLBACK) -> httpx.Response:
        """Exchange a code."""
        return await self.auth(
            code=code, grant_type="authorization_code", redirect_uri=redirect_uri
        )

    async def refresh(self, token: str, redirect_uri: str = CALLBACK) -> httpx.Response:
        """Ask for a new access token."""
        return await self.auth(code=token, grant_type="refresh_token", redirect_uri=redirect_uri)

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
        return await self.http.request(
            method,
            DATA + path,
            headers={"x-access-token": token},
            json=body if method in ("POST", "PATCH") else None,
        )

    async def control(self, address: str, **body: object) -> dict[str, Any]:
        """Set something at the control surface."""
        answer = await self.http.post(f"/_sandbox/{address}", json=body)
        assert answer.status_code == 200, answer.text
        shown: dict[str, Any] = answer.json()
        return shown

    async def counts(self, customer: str) -> dict[str, int]:
        """Read what was counted about a customer."""
        answer = await self.http.get("/_sandbox/grants", params={"customer": customer})
        counted: dict[str, int] = answer.json()["counts"].get(customer, {})
        return counted


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
    assert answer.status_code in (302, 303), answer.text
    location = answer.headers["location"]
    assert location.startswith(to)
    return dict(parse_qsl(urlsplit(location).query, keep_blank_values=True))
