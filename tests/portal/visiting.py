"""A portal, a consent screen and browsers in one process, without sockets and with a set clock.

A `Visitor` is a browser that stores cookies and does not follow redirects.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

import httpx
from sqlalchemy import select

from nightscreen.config.settings import Settings, read_settings
from nightscreen.journal import Journal, open_journal
from nightscreen.journal.consents import Consents
from nightscreen.journal.schema import calls
from nightscreen.operations.consent_links import ConsentLinks, Link
from nightscreen.portal.app import application
from nightscreen.sandbox.app import application as sandbox_application
from nightscreen.sandbox.grants import DEFAULT_CLIENT_ID
from nightscreen.sandbox.state import Sandbox
from nightscreen.schemas.clock import system_clock
from nightscreen.schemas.consented import Grant
from tests.sandbox.in_process import quick_sandbox

PORTAL = "https://consent.lender.example"
SCREEN = "https://screen.service.example"
CALLBACK = "/consent/callback"
LIST, VIEW, PROFILE = "transaction:list", "transaction:view", "profile:view"
CUSTOMER = "CUST-7700155-OBI"


def heading(page: httpx.Response) -> str:
    match = re.search(r"<h1>(.*?)</h1>", page.text)
    assert match, page.text
    return match[1]


@dataclass
class Clock:
    """A clock, in microseconds, that tests can advance."""

    ahead: timedelta = timedelta()

    def __call__(self) -> int:
        """Return the current instant."""
        return system_clock() + self.ahead // timedelta(microseconds=1)

    def forward(self, **time: float) -> None:
        """Advance the clock."""
        self.ahead += timedelta(**time)


def settings_in(folder: Path, **changes: Any) -> Settings:  # noqa: ANN401 - any setting
    """Return the settings of a portal behind a proxy."""
    defaults: dict[str, Any] = {
        "base_url": "http://127.0.0.1:1",
        "api_key": "sandbox-key",
        "home": folder / "home",
        "consent_url": SCREEN,
        "client_id": DEFAULT_CLIENT_ID,
        "redirect_uri": PORTAL + CALLBACK,
        "portal_name": "Palmwine Credit",
        "portal_contact": "0700 123 4567",
    }
    return read_settings(_env_file=None, **{**defaults, **changes})


@dataclass
class Town:
    """One portal with one journal and one sandbox, for any number of browsers."""

    folder: Path
    sandbox: Sandbox = field(default_factory=quick_sandbox)
    clock: Clock = field(default_factory=Clock)
    changes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sandbox.redirect_uris = (PORTAL + CALLBACK,)
        self.settings = settings_in(self.folder, **self.changes)
        self.journal: Journal = open_journal(self.folder / "home", clock=self.clock)
        self.service = httpx.ASGITransport(sandbox_application(self.sandbox))
        self.app = application(self.journal, self.settings, transport=self.service)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.journal.close()

    def link(self, *scopes: str, customer: str = CUSTOMER) -> Link:
        return ConsentLinks(self.journal).make(customer, scopes or (LIST,))

    @property
    def grants(self) -> Sequence[Grant]:
        return Consents(self.journal).grants()

    def calls(self) -> list[tuple[str, str]]:
        """Return check and state of every call in the journal."""
        query = select(calls.c.check, calls.c.state).order_by(calls.c.call_id)
        with self.journal.database.reading() as connection:
            return [(check, state) for check, state in connection.execute(query)]


@dataclass
class Visitor:
    """A customer's browser."""

    town: Town
    signs_in_as: str = "ada@customers.example"

    def __post_init__(self) -> None:
        app = httpx.ASGITransport(self.town.app, raise_app_exceptions=False)
        self.browser = httpx.AsyncClient(transport=app, base_url=PORTAL)
        self.screen = httpx.AsyncClient(transport=self.town.service, base_url=SCREEN)

    async def open(self, token: str) -> httpx.Response:
        return await self.browser.get(f"/consent/{token}")

    async def press(self, token: str) -> httpx.Response:
        """Open a link and press its button."""
        await self.open(token)
        return await self.browser.post(f"/consent/{token}")

    async def depart(self, token: str) -> str:
        """Press the button of a link, and return the address of the consent screen."""
        answer = await self.press(token)
        assert answer.status_code == 303, answer.text
        return answer.headers["location"]

    async def decide(self, screen: str, decision: str = "allow") -> str:
        """Decide on the consent screen, and return the address of the redirect."""
        form = {"customer": self.signs_in_as, "decision": decision}
        answer = await self.screen.post(screen, data=form)
        assert answer.status_code == 303, answer.text
        return answer.headers["location"]

    async def walk(self, token: str, decision: str = "allow") -> httpx.Response:
        """Go from the link through the consent screen, and return the page of the result."""
        back = await self.decide(await self.depart(token), decision)
        return await self.arrive(back)

    async def arrive(self, back: str) -> httpx.Response:
        """Follow the redirect back, and return the page of the result."""
        answer = await self.browser.get(back)
        if answer.status_code != 303:
            return answer
        assert answer.headers["location"] == "/consent/told"
        return await self.browser.get(answer.headers["location"])
