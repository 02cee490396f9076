"""A sandbox in the test's own process, and a caller and a browser for it: no socket, no waiting."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from nightscreen.sandbox.app import application
from nightscreen.sandbox.faults import NO_WAIT
from nightscreen.sandbox.state import Opening, Sandbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ORIGIN = "http://127.0.0.1:8800"


@dataclass
class Here:
    """One sandbox, the client of a distributor with the right key, and a customer's browser."""

    sandbox: Sandbox
    client: httpx.AsyncClient
    browser: httpx.AsyncClient

    async def control(self, name: str, body: object = None) -> dict[str, Any]:
        """Steer the sandbox, or look into it where no body is given."""
        path = f"/_sandbox/{name}"
        if body is None:
            answer = await self.browser.get(path)
        else:
            answer = await self.browser.post(path, json=body)
        shown: dict[str, Any] = answer.json()
        assert answer.status_code == 200, shown
        return shown

    async def offer(self, product_id: str = "LP1001", **meta: str) -> dict[str, str]:
        """Start a loan and return its reference and link."""
        body = {"product_id": product_id, "meta": meta}
        answer = await self.client.post("/v2/loans/initialize", json=body)
        assert answer.status_code == 200, answer.text
        data: dict[str, str] = answer.json()["data"]
        return data

    async def loan(self, reference: str) -> dict[str, Any]:
        """View a loan."""
        answer = await self.client.get(f"/v2/loans/{reference}")
        assert answer.status_code == 200, answer.text
        data: dict[str, Any] = answer.json()["data"]
        return data

    async def status(self, reference: str) -> str:
        """View a loan's status word."""
        word: str = (await self.loan(reference))["status"]["status"]
        return word


@asynccontextmanager
async def here(scenario: str = "calm") -> AsyncIterator[Here]:
    """Build a sandbox that answers at once."""
    sandbox = Sandbox(Opening(scenario=scenario))
    sandbox.latency.default = NO_WAIT
    transport = httpx.ASGITransport(application(sandbox))
    key = {"Authorization": f"Bearer {sandbox.opening.api_key}"}
    async with (
        httpx.AsyncClient(transport=transport, base_url=ORIGIN, headers=key) as client,
        httpx.AsyncClient(transport=transport, base_url=ORIGIN) as browser,
    ):
        yield Here(sandbox, client, browser)
